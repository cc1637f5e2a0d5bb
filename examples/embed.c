/* Embeds tenon in C: loads a program, compiles it with options, runs it on its own example inputs, prints the results. Built against the
 * installed library:
 *   cc -std=c99 embed.c -I PREFIX/include -L PREFIX/lib -ltenon -o embed && ./embed model.pt2 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tenon/tenon.c.h>

#define MOST 16 /* inputs and outputs */

/* An operator of one's own: programs that call mine::twice find it. */
static const char* twice(const tenon_op_call* call) {
  const tenon_tensor* x = &call->args[0].tensors[0];
  const float* from = x->data;
  float* to = call->outputs[0].data;
  int64_t i, n = 1;
  int32_t d;
  for (d = 0; d < x->rank; d++) n *= x->sizes[d];
  for (i = 0; i < n; i++) to[i] = 2 * from[i];
  return NULL;
}

static void stop_at(int32_t status, tenon_error* error) {
  if (status == TENON_OK) return;
  fprintf(stderr, "error %" PRId32 ": %s\n", status, tenon_error_message(error));
  tenon_error_free(error);
  exit(1);
}

static void print(const DLTensor* t) {
  int32_t d, dtype = 0;
  int64_t n = 1;
  stop_at(tenon_dtype_from_dlpack(&t->dtype, &dtype, NULL), NULL);
  printf("%s[", tenon_dtype_name(dtype));
  for (d = 0; d < t->ndim; d++) {
    printf(d ? ", %" PRId64 : "%" PRId64, t->shape[d]);
    n *= t->shape[d];
  }
  printf(dtype == TENON_F32 && n > 0 ? "] = %g ...\n" : "]\n", dtype == TENON_F32 && n > 0 ? (double)*(const float*)t->data : 0.0);
}

int main(int argc, char** argv) {
  static const tenon_option named[] = {{"threads", "2"}, {"forbid-fallback", "true"}};
  tenon_options options = {0};
  tenon_op op = {0};
  tenon_error* error = NULL;
  tenon_program* program = NULL;
  tenon_executable* executable = NULL;
  tenon_tensors* examples = NULL;
  DLManagedTensorVersioned *inputs[MOST], *outputs[MOST];
  const DLTensor* views[MOST];
  size_t i, num_inputs, num_outputs;
  int32_t status;

  if (argc != 2) return fprintf(stderr, "usage: embed MODEL.pt2\n"), 2;
  printf("tenon %s, C API %u.%u\n", tenon_version(), (unsigned)(tenon_api_version() >> 16), (unsigned)(tenon_api_version() & 0xffff));
  if (tenon_api_version() >> 16 != TENON_API_MAJOR) return 1;

  op.schema = "mine::twice(Tensor x) -> Tensor";
  op.results = "x";
  op.function = twice;
  status = tenon_op_register(&op, &error);
  stop_at(status, error);

  status = tenon_program_load(argv[1], NULL, &program, &error);
  stop_at(status, error);
  options.struct_size = sizeof options;
  options.options = named;
  options.num_options = sizeof named / sizeof named[0];
  status = tenon_program_compile(program, &options, &executable, &error);
  stop_at(status, error);

  status = tenon_program_example_inputs(program, &examples, &error);
  stop_at(status, error);
  num_inputs = tenon_tensors_count(examples);
  num_outputs = tenon_executable_num_outputs(executable);
  if (num_inputs > MOST || num_outputs > MOST) return fprintf(stderr, "too many inputs or outputs\n"), 1;
  for (i = 0; i < num_inputs; i++) {
    status = tenon_tensors_get(examples, i, &inputs[i], &error);
    stop_at(status, error);
    views[i] = &inputs[i]->dl_tensor;
  }
  status = tenon_executable_run(executable, views, num_inputs, outputs, num_outputs, &error);
  stop_at(status, error);
  for (i = 0; i < num_outputs; i++) {
    print(&outputs[i]->dl_tensor);
    outputs[i]->deleter(outputs[i]);
  }

  /* An error is a value with a code and a message. */
  status = tenon_executable_run(executable, views, num_inputs - 1, outputs, num_outputs, &error);
  printf("one input less: %s\n", status == TENON_BAD_INPUT ? tenon_error_message(error) : "accepted");
  tenon_error_free(error);

  for (i = 0; i < num_inputs; i++) inputs[i]->deleter(inputs[i]);
  tenon_tensors_free(examples);
  tenon_executable_free(executable);
  tenon_program_free(program);
  return status == TENON_BAD_INPUT ? 0 : 1;
}
