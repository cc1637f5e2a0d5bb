// Executables in the C API: runs, bound calls, state, and what there is to know of them.
#include <memory>

#include "capi/handles.h"
#include "tenon/explain.h"

using namespace tenon;
using namespace tenon::capi;

namespace {

struct LetGo {
  void operator()(DLManagedTensorVersioned* m) const { m->deleter(m); }
};

void check_outputs(const tenon_executable* executable, size_t given) {
  size_t has = need(executable, "executable")->outputs.infos.size();
  if (given != has) refuse(std::to_string(given) + " outputs are given, the program has " + std::to_string(has));
}

// The parts of parallel arrays that belong to one tensor after the other.
class ParallelArrays {
public:
  ParallelArrays(void* const* data, const int32_t* dtypes, const int32_t* ranks, const int64_t* sizes, const int64_t* strides)
      : data_(data), dtypes_(dtypes), ranks_(ranks), sizes_(sizes), strides_(strides) {}

  void fill(Views& views, const char* what) {
    if (views.size() > 0) need(data_, "data"), need(dtypes_, "dtypes"), need(ranks_, "ranks");
    for (size_t i = 0; i < views.size(); i++, at_++) views[i] = view(std::string(what) + " " + std::to_string(i));
  }

private:
  TensorView view(const std::string& what) {
    DLTensor t{.data = data_[at_],
               .device = {kDLCPU, 0},
               .ndim = ranks_[at_],
               .dtype = {},
               .shape = const_cast<int64_t*>(sizes_ ? sizes_ + dims_ : nullptr),
               .strides = const_cast<int64_t*>(strides_ ? strides_ + dims_ : nullptr),
               .byte_offset = 0};
    if (tenon_dtype_to_dlpack(dtypes_[at_], &t.dtype, nullptr) != TENON_OK)
      refuse(what + ": there is no dtype " + std::to_string(dtypes_[at_]));
    TensorView out = view_of(&t, what);
    dims_ += out.sizes.size();
    return out;
  }

  void* const* data_;
  const int32_t *dtypes_, *ranks_;
  const int64_t *sizes_, *strides_;
  size_t at_ = 0, dims_ = 0;
};

} // namespace

int32_t tenon_executable_load(const char* path, const tenon_options* options, tenon_executable** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    Executable made = Executable::load(need(path, "path"), options_of(options)).value();
    Args inputs(made.inputs()), outputs(made.outputs());
    *out = new tenon_executable{std::move(made), std::move(inputs), std::move(outputs)};
  });
}
int32_t tenon_executable_copy(const tenon_executable* executable, tenon_executable** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    *out = new tenon_executable{need(executable, "executable")->executable.copy(), executable->inputs, executable->outputs};
  });
}
void tenon_executable_free(tenon_executable* executable) { delete executable; }

size_t tenon_executable_num_inputs(const tenon_executable* executable) { return executable ? executable->inputs.infos.size() : 0; }
size_t tenon_executable_num_outputs(const tenon_executable* executable) { return executable ? executable->outputs.infos.size() : 0; }
int32_t tenon_executable_input(const tenon_executable* executable, size_t i, tenon_arg_info* out, tenon_error** error) {
  return guarded(error, [&] { need(executable, "executable")->inputs.get(i, out); });
}
int32_t tenon_executable_output(const tenon_executable* executable, size_t i, tenon_arg_info* out, tenon_error** error) {
  return guarded(error, [&] { need(executable, "executable")->outputs.get(i, out); });
}

int32_t tenon_executable_run(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                             DLManagedTensorVersioned** outputs, size_t num_outputs, tenon_error** error) {
  return guarded(error, [&] {
    check_outputs(executable, num_outputs);
    if (num_outputs > 0) need(outputs, "outputs");
    Views views(inputs, num_inputs, "input");
    std::vector<Tensor> results;
    executable->executable.run(std::span<const TensorView>(views), results).check();
    std::vector<std::unique_ptr<DLManagedTensorVersioned, LetGo>> made;
    for (Tensor& t : results) made.emplace_back(managed(std::move(t)));
    for (size_t i = 0; i < made.size(); i++) outputs[i] = made[i].release();
  });
}
int32_t tenon_executable_run_into(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                                  const DLTensor* const* outputs, size_t num_outputs, tenon_error** error) {
  return guarded(error, [&] {
    need(executable, "executable");
    Views in(inputs, num_inputs, "input"), out(outputs, num_outputs, "output");
    executable->executable.run(std::span<const TensorView>(in), std::span<const TensorView>(out)).check();
  });
}
int32_t tenon_executable_run_arrays(const tenon_executable* executable, size_t num_inputs, size_t num_outputs, void* const* data,
                                    const int32_t* dtypes, const int32_t* ranks, const int64_t* sizes, const int64_t* strides,
                                    tenon_error** error) {
  return guarded(error, [&] {
    need(executable, "executable");
    ParallelArrays arrays(data, dtypes, ranks, sizes, strides);
    Views in(num_inputs), out(num_outputs);
    arrays.fill(in, "input"), arrays.fill(out, "output");
    executable->executable.run(std::span<const TensorView>(in), std::span<const TensorView>(out)).check();
  });
}

int32_t tenon_executable_bind(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                              const DLTensor* const* outputs, size_t num_outputs, tenon_bound_call** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out"), need(executable, "executable");
    Views in(inputs, num_inputs, "input"), to(outputs, num_outputs, "output");
    *out = new tenon_bound_call{executable->executable.bind(in, to).value()};
  });
}
int32_t tenon_bound_call_run(tenon_bound_call* call, tenon_error** error) {
  return guarded(error, [&] { need(call, "call")->call.run().check(); });
}
void tenon_bound_call_free(tenon_bound_call* call) { delete call; }

int32_t tenon_executable_state(const tenon_executable* executable, tenon_tensors** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    *out = new tenon_tensors{need(executable, "executable")->executable.state()};
  });
}
int32_t tenon_executable_set_state(tenon_executable* executable, const char* const* names, const DLTensor* const* tensors, size_t count,
                                   tenon_error** error) {
  return guarded(error, [&] {
    need(executable, "executable");
    std::vector<NamedTensor> state;
    for (size_t i = 0; i < count; i++) {
      std::string name = need(need(names, "names")[i], "a name");
      state.push_back({name, tensor_of(need(tensors, "tensors")[i], name)});
    }
    executable->executable.set_state(state).check();
  });
}
int32_t tenon_executable_reset_state(tenon_executable* executable, tenon_error** error) {
  return guarded(error, [&] { need(executable, "executable")->executable.reset_state(); });
}

int32_t tenon_executable_specialize(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs,
                                    tenon_error** error) {
  return guarded(error, [&] { need(executable, "executable")->executable.specialize(Views(inputs, num_inputs, "input", false)).check(); });
}
int32_t tenon_executable_wait(const tenon_executable* executable, tenon_error** error) {
  return guarded(error, [&] { need(executable, "executable")->executable.wait().check(); });
}

int32_t tenon_executable_stats(const tenon_executable* executable, tenon_stats* out, tenon_error** error) {
  return guarded(error, [&] {
    ExecutableStats s = need(executable, "executable")->executable.stats();
    write_struct(out,
                 {.struct_size = 0,
                  .kernels_compiled = s.kernels_compiled,
                  .steps = s.steps,
                  .fallback_steps = s.fallback_steps,
                  .delegate_steps = s.delegate_steps,
                  .is_compiling = s.is_compiling,
                  .cache = static_cast<int32_t>(s.cache),
                  .reserved = 0,
                  .compile_ms = s.compile_ms,
                  .state_bytes = s.state_bytes,
                  .arena_bytes = s.arena_bytes},
                 "out");
  });
}
int32_t tenon_executable_memory(const tenon_executable* executable, const DLTensor* const* inputs, size_t num_inputs, tenon_memory_use* out,
                                tenon_error** error) {
  return guarded(error, [&] {
    MemoryUse m = need(executable, "executable")->executable.memory(Views(inputs, num_inputs, "input", false)).value();
    write_struct(
        out, {.struct_size = 0, .reserved = 0, .temporaries = m.temporaries, .alive = m.alive, .scratch = m.scratch, .results = m.results},
        "out");
  });
}
int32_t tenon_executable_explain(const tenon_executable* executable, char** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    *out = text_of(need(executable, "executable")->executable.explain());
  });
}
int32_t tenon_executable_explain_as(const tenon_executable* executable, const char* format, char** out, tenon_error** error) {
  return guarded(error, [&] {
    std::string_view name = need(format, "format");
    need(out, "out");
    Explanation e = need(executable, "executable")->executable.explanation().value();
    if (name == "text") *out = text_of(to_text(e));
    else if (name == "json") *out = text_of(to_json(e));
    else if (name == "html") *out = text_of(to_html(e));
    else throw Error(ErrorKind::BadInput, "no format " + std::string(name) + ": there are text, json and html");
  });
}
