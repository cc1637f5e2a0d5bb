// The C API: what is made, run, asked and freed through its functions, and how they refuse.
#include "tenon/tenon.h"

#include <cstring>

#include <fmt/format.h>

#include "tests/unit/capi_harness.h"

namespace tenon::capi_test {
using namespace tenon::test;

namespace {

bool says(const std::string& text, const char* part) { return text.find(part) != text.npos; }

// The examples of a program, as pointers to DLTensors.
struct Examples {
  CTensors list;
  std::vector<CTensor> held;
  std::vector<const DLTensor*> in;
  explicit Examples(const CProgram& p)
      : list(made<CTensors>([&](auto out, auto e) { return tenon_program_example_inputs(p.get(), out, e); })) {
    for (size_t i = 0; i < tenon_tensors_count(list.get()); i++) {
      held.push_back(made<CTensor>([&](auto out, auto e) { return tenon_tensors_get(list.get(), i, out, e); }));
      in.push_back(&held.back()->dl_tensor);
    }
  }
};

std::vector<float> floats(const DLTensor& t) {
  int64_t n = 1;
  for (int32_t d = 0; d < t.ndim; d++) n *= t.shape[d];
  auto* data = static_cast<float*>(t.data);
  return {data, data + n};
}

CTensor run(const CExecutable& e, const Examples& x) {
  return made<CTensor>([&](auto out, auto err) { return tenon_executable_run(e.get(), x.in.data(), x.in.size(), out, 1, err); });
}

} // namespace

TEST_CASE("C API: a program described, compiled and run in every form") {
  CHECK(tenon_api_version() == TENON_API_MAJOR * 65536 + TENON_API_MINOR);
  CProgram p = load("cnn_bn_residual");
  REQUIRE(tenon_program_num_inputs(p.get()) == 1);
  tenon_arg_info info{};
  info.struct_size = sizeof info;
  succeeds([&](auto e) { return tenon_program_input(p.get(), 0, &info, e); });
  CHECK(info.dtype == TENON_F32);
  CHECK(info.rank == 4);
  CHECK(info.is_number == 0);
  CHECK(std::string(info.sizes[1]) ==
        Program::load(std::string(TENON_FIXTURES) + "/programs/cnn_bn_residual.pt2").value().inputs()[0].sizes[1]);
  CHECK(says(text([&](auto out, auto e) { return tenon_program_structure(p.get(), out, e); }), "f32["));
  CHECK(says(text([&](auto out, auto e) { return tenon_program_dump(p.get(), "edge", nullptr, out, e); }), "edge::"));
  Examples x(p);
  CExecutable e = compile(p, {{"threads", "2"}, {"forbid_fallback", "true"}});
  p.reset(); // the executable keeps what it needs
  CTensor y = run(e, x);
  std::vector<float> want = floats(y->dl_tensor), got(want.size());
  DLTensor into = y->dl_tensor;
  into.data = got.data();
  const DLTensor* to[] = {&into};
  succeeds([&](auto err) { return tenon_executable_run_into(e.get(), x.in.data(), 1, to, 1, err); });
  CHECK(got == want);
  got.assign(got.size(), 0);
  tenon_bound_call* call = nullptr;
  succeeds([&](auto err) { return tenon_executable_bind(e.get(), x.in.data(), 1, to, 1, &call, err); });
  succeeds([&](auto err) { return tenon_bound_call_run(call, err); });
  CHECK(got == want);
  tenon_bound_call_free(call);
  got.assign(got.size(), 0);
  const DLTensor& in = *x.in[0];
  void* data[] = {in.data, got.data()};
  int32_t dtypes[] = {TENON_F32, TENON_F32}, ranks[] = {4, 2};
  int64_t sizes[] = {in.shape[0], in.shape[1], in.shape[2], in.shape[3], into.shape[0], into.shape[1]};
  succeeds([&](auto err) { return tenon_executable_run_arrays(e.get(), 1, 1, data, dtypes, ranks, sizes, nullptr, err); });
  CHECK(got == want);
  dtypes[1] = 70;
  CHECK(says(refusal(TENON_BAD_INPUT,
                     [&](auto err) { return tenon_executable_run_arrays(e.get(), 1, 1, data, dtypes, ranks, sizes, nullptr, err); }),
             "output 0: there is no dtype 70"));
}

TEST_CASE("C API: what an executable tells, threads, and options that are wrong") {
  CProgram p = load("cnn_bn_residual");
  Examples x(p);
  tenon_thread_pool* pool = nullptr;
  succeeds([&](auto e) { return tenon_thread_pool_new(2, &pool, e); });
  tenon_options options{sizeof options, 0, nullptr, 0, pool};
  CExecutable e = made<CExecutable>([&](auto out, auto err) { return tenon_program_compile(p.get(), &options, out, err); });
  tenon_thread_pool_free(pool);
  tenon_thread_budget* budget = nullptr;
  succeeds([&](auto err) { return tenon_thread_budget_new(1, &budget, err); });
  run(e, x);
  tenon_thread_budget_free(budget);
  succeeds([&](auto err) { return tenon_executable_wait(e.get(), err); });
  tenon_stats stats{};
  stats.struct_size = sizeof stats;
  succeeds([&](auto err) { return tenon_executable_stats(e.get(), &stats, err); });
  CHECK(stats.steps > 0);
  CHECK(stats.fallback_steps == 0);
  tenon_memory_use use{};
  use.struct_size = sizeof use;
  DLTensor shape = *x.in[0];
  shape.data = nullptr; // only sizes count
  const DLTensor* shapes[] = {&shape};
  succeeds([&](auto err) { return tenon_executable_memory(e.get(), shapes, 1, &use, err); });
  CHECK(use.results > 0);
  CHECK(!text([&](auto out, auto err) { return tenon_executable_explain(e.get(), out, err); }).empty());
  CHECK(text([&](auto out, auto err) { return tenon_executable_explain_as(e.get(), "json", out, err); }).starts_with("{"));
  CHECK(text([&](auto out, auto err) { return tenon_executable_explain_as(e.get(), "html", out, err); }).starts_with("<!doctype html>"));

  auto refused = [&](const char* name, const char* value) {
    tenon_option o{name, value};
    tenon_options given{sizeof given, 0, &o, 1, nullptr};
    tenon_executable* out = nullptr;
    return refusal(TENON_BAD_INPUT, [&](auto err) { return tenon_program_compile(p.get(), &given, &out, err); });
  };
  CHECK(says(refused("thraeds", "2"), "no option thraeds; did you mean threads? There are threads, isa"));
  CHECK(says(refused("threads", "-2"), "option threads cannot be '-2'"));
  CHECK(says(refused("threads", "2x"), "a whole number"));
  CHECK(says(refused("precision", "f8"), "strict, bf16, int8-weights"));
  CHECK(says(refused("interpret", "perhaps"), "true or false"));
  CHECK(says(refused(nullptr, "2"), "NULL"));
}

TEST_CASE("C API: structs of other versions") {
  CProgram p = load("cnn_bn_residual");
  tenon_arg_info info{};
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_program_input(p.get(), 0, &info, e); }), "struct_size is not set"));
  info.struct_size = offsetof(tenon_arg_info, is_number); // an older one: no more than that is written
  info.is_number = 77;
  succeeds([&](auto e) { return tenon_program_input(p.get(), 0, &info, e); });
  CHECK(info.rank == 4);
  CHECK(info.is_number == 77);
  struct {
    tenon_options known;
    uint64_t later;
  } newer{{sizeof newer, 0, nullptr, 0, nullptr}, 0};
  compile(p).reset();
  tenon_executable* out = nullptr;
  succeeds([&](auto e) { return tenon_program_compile(p.get(), &newer.known, &out, e); });
  tenon_executable_free(out);
  newer.later = 1;
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_program_compile(p.get(), &newer.known, &out, e); }), "does not know"));
  struct {
    tenon_stats known;
    uint64_t later;
  } stats{{}, 5};
  stats.known.struct_size = sizeof stats;
  CExecutable e = compile(p);
  succeeds([&](auto err) { return tenon_executable_stats(e.get(), &stats.known, err); });
  CHECK(stats.later == 0);
  CHECK(stats.known.struct_size == sizeof stats);
}

TEST_CASE("C API: state, read, set, reset, copied") {
  CProgram p = load("buffer_mutation");
  Examples x(p);
  CExecutable e = compile(p);
  auto state = [](const CExecutable& of) {
    CTensors all = made<CTensors>([&](auto out, auto err) { return tenon_executable_state(of.get(), out, err); });
    REQUIRE(tenon_tensors_count(all.get()) > 0);
    return std::pair(std::string(tenon_tensors_name(all.get(), 0)),
                     made<CTensor>([&](auto out, auto err) { return tenon_tensors_get(all.get(), 0, out, err); }));
  };
  auto bytes = [](const DLTensor& t) {
    size_t n = t.dtype.bits / 8;
    for (int32_t d = 0; d < t.ndim; d++) n *= static_cast<size_t>(t.shape[d]);
    return std::string(static_cast<const char*>(t.data), n);
  };
  auto [name, first] = state(e);
  size_t outputs = tenon_executable_num_outputs(e.get());
  auto step = [&](const CExecutable& of) {
    std::vector<DLManagedTensorVersioned*> out(outputs);
    succeeds([&](auto err) { return tenon_executable_run(of.get(), x.in.data(), x.in.size(), out.data(), outputs, err); });
    for (auto* t : out) t->deleter(t);
  };
  step(e);
  auto second = state(e).second;
  CHECK(bytes(first->dl_tensor) != bytes(second->dl_tensor));
  CExecutable other = made<CExecutable>([&](auto out, auto err) { return tenon_executable_copy(e.get(), out, err); });
  succeeds([&](auto err) { return tenon_executable_reset_state(e.get(), err); });
  CHECK(bytes(state(e).second->dl_tensor) == bytes(first->dl_tensor));
  CHECK(bytes(state(other).second->dl_tensor) == bytes(second->dl_tensor));
  const char* names[] = {name.c_str()};
  const DLTensor* values[] = {&second->dl_tensor};
  succeeds([&](auto err) { return tenon_executable_set_state(e.get(), names, values, 1, err); });
  CHECK(bytes(state(e).second->dl_tensor) == bytes(second->dl_tensor));
  names[0] = "nobody";
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto err) { return tenon_executable_set_state(e.get(), names, values, 1, err); }), "nobody"));
}

TEST_CASE("C API: weights given in the place of others are let go once") {
  static int let_go_of = 0;
  let_go_of = 0;
  CProgram p = load("cnn_bn_residual");
  CTensors all = made<CTensors>([&](auto out, auto e) { return tenon_program_weights(p.get(), out, e); });
  std::string name = tenon_tensors_name(all.get(), 0);
  CTensor old = made<CTensor>([&](auto out, auto e) { return tenon_tensors_get(all.get(), 0, out, e); });
  std::vector<float> zeros(floats(old->dl_tensor).size());
  DLManagedTensorVersioned given{{1, 0}, nullptr, [](DLManagedTensorVersioned*) { let_go_of++; }, 0, old->dl_tensor};
  given.dl_tensor.data = zeros.data();
  DLManagedTensorVersioned* tensors[] = {&given};
  const char* names[] = {"nobody"};
  tenon_program* out = nullptr;
  refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_program_with_weights(p.get(), names, tensors, 1, &out, e); });
  CHECK(let_go_of == 0);
  names[0] = name.c_str();
  given.version.major = 9;
  CHECK(
      says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_program_with_weights(p.get(), names, tensors, 1, &out, e); }), "version 9"));
  given.version.major = 1;
  CProgram changed = made<CProgram>([&](auto o, auto e) { return tenon_program_with_weights(p.get(), names, tensors, 1, o, e); });
  CHECK(let_go_of == 0);
  {
    Examples x(p);
    CHECK(floats(run(compile(changed), x)->dl_tensor) != floats(run(compile(p), x)->dl_tensor));
  }
  changed.reset();
  CHECK(let_go_of == 1);
}

TEST_CASE("C API: files, operators, and everything that is NULL") {
  tenon_program* p = nullptr;
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_program_load("/no/such.pt2", nullptr, &p, e); }), "/no/such.pt2"));
  refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_program_load_bytes("rubbish", 7, nullptr, &p, e); });
  CHECK(p == nullptr);
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_program_load(nullptr, nullptr, &p, e); }), "path is NULL"));
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_program_load("x", nullptr, nullptr, e); }), "out is NULL"));
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_executable_run(nullptr, nullptr, 0, nullptr, 0, e); }), "NULL"));
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto e) { return tenon_bound_call_run(nullptr, e); }), "call is NULL"));
  std::string methods = std::string(TENON_FIXTURES) + "/graphs/methods.pt2";
  CHECK(text([&](auto out, auto e) { return tenon_program_methods(methods.c_str(), out, e); }).find('\n') != std::string::npos);
  CProgram mlp = load("cnn_bn_residual");
  Examples x(mlp);
  CExecutable e = compile(mlp);
  DLManagedTensorVersioned* out[2] = {};
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto err) { return tenon_executable_run(e.get(), x.in.data(), 1, out, 2, err); }),
             "2 outputs are given, the program has 1"));
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto err) { return tenon_executable_run(e.get(), nullptr, 1, out, 1, err); }), "input is NULL"));
  refusal(TENON_BAD_INPUT, [&](auto err) { return tenon_executable_run(e.get(), nullptr, 0, out, 1, err); });
  tenon_op op{"capi::twice(Tensor x) -> Tensor", nullptr, nullptr, nullptr, "2*x"};
  succeeds([&](auto err) { return tenon_op_register(&op, err); });
  op.expression = "2*z";
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto err) { return tenon_op_register(&op, err); }), ""));
  tenon_kernel none{};
  CHECK(says(refusal(TENON_BAD_INPUT, [&](auto err) { return tenon_kernel_register(&none, err); }), "name is NULL"));
  refusal(TENON_BAD_INPUT, [&](auto err) { return tenon_op_library_load("/no/such.so", err); });
  tenon_program_free(nullptr), tenon_executable_free(nullptr), tenon_tensors_free(nullptr), tenon_error_free(nullptr);
  tenon_text_free(nullptr), tenon_thread_pool_free(nullptr), tenon_thread_budget_free(nullptr), tenon_bound_call_free(nullptr);
  CHECK(tenon_tensors_count(nullptr) == 0);
  CHECK(tenon_program_num_inputs(nullptr) == 0);
}

} // namespace tenon::capi_test
