// Archives of torch.export: what is wrong in them is told at load, or at the latest when they are compiled, as bad input.
#include "tenon/tenon.h"
#include "tests/unit/changed_program.h"

namespace tenon::pt2_test {

namespace {

std::string load_error(const std::string& bytes, ErrorKind kind = ErrorKind::BadInput) {
  auto program = Program::load(as_byte_span(bytes), "test");
  if (program) return "";
  CHECK(program.error().kind == kind);
  return program.error().what();
}

std::string compile_error(const std::string& bytes, bool interpret) {
  Program program = Program::load(as_byte_span(bytes), "test").value();
  auto exe = program.compile({.interpret = interpret});
  if (exe) return "";
  CHECK(exe.error().kind == ErrorKind::BadInput);
  return exe.error().what();
}

} // namespace

TEST_CASE("a fixture packed anew still loads") { CHECK(load_error(changed("mlp", "linear_1", "linear_1")) == ""); }

TEST_CASE("archives that are no exported program are called by their name") {
  std::string aot = fuzz::zip_of({{"p/archive_format", "pt2"},
                                  {"p/data/aotinductor/model/c1.wrapper.so", "\x7f"
                                                                             "ELF"},
                                  {"p/data/aotinductor/model/c1.wrapper.cpp", "x"}});
  CHECK(has(load_error(aot, ErrorKind::Unsupported), "AOTInductor package"));
  std::string old = fuzz::zip_of({{"serialized_exported_program.json", "{}"}, {"version", "1"}});
  CHECK(has(load_error(old), "schema_version"));
  CHECK(has(load_error(fuzz::zip_of({{"p/data.pkl", "x"}})), "not a torch.export archive"));
}

TEST_CASE("arguments of the wrong kind name operator, argument and schema") {
  auto check = [&](const std::string& fixture, std::string_view old, std::string_view now, std::string_view argument,
                   std::string_view schema) {
    std::string error = load_error(changed(fixture, old, now));
    CHECK_MESSAGE(has(error, argument), error);
    CHECK_MESSAGE(has(error, schema), error);
  };
  check("mlp", R"({"name": "dim", "arg": {"as_int": -1})", R"({"name": "dim", "arg": {"as_string": "x"})", "argument dim does not fit",
        "aten::softmax.int(Tensor self, int dim");
  check("mlp", R"({"name": "dim", "arg": {"as_int": -1})", R"({"name": "dim", "arg": {"as_float": 1.5})", "argument dim does not fit",
        "aten::softmax.int(Tensor self, int dim");
  check("mlp", R"({"name": "weight", "arg": {"as_tensor": {"name": "p_layers_2_weight"}})",
        R"({"name": "weight", "arg": {"as_none": true})", "argument weight does not fit",
        "aten::linear.default(Tensor input, Tensor weight");
  check("shapes", R"({"name": "end_dim", "arg": {"as_int": 1})", R"({"name": "end_dim", "arg": {"as_ints": [1]})",
        "argument end_dim does not fit", "aten::flatten.using_ints");
  check("shapes", R"({"as_tensors": [{"name": "y"}, {"name": "slice_4"}]})", R"({"as_tensor": {"name": "y"}})",
        "argument tensors does not fit", "aten::cat");
  check("shapes", R"({"name": "dtype", "arg": {"as_scalar_type": 5})", R"({"name": "dtype", "arg": {"as_int": 5})",
        "argument dtype does not fit", "aten::zeros");
}

TEST_CASE("sizes are integers from 0 on that can be addressed") {
  std::string_view size = R"j({"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 4}}})j";
  for (std::string_view wrong : {R"j({"as_int": -1})j", R"j({"as_int": -9223372036854775808})j", R"j({"as_int": 4611686018427387905})j",
                                 R"j({"as_int": 1152921504606846976})j", R"j({"as_float": 2.0})j", R"j({"as_bool": true})j",
                                 R"j({"as_expr": {"expr_str": "Integer(-3)", "hint": null}})j",
                                 R"j({"as_expr": {"expr_str": "Mul(Integer(3), Float('1.5'))", "hint": null}})j"}) {
    std::string error = load_error(changed("mlp", size, wrong));
    CHECK_MESSAGE((has(error, "size") || has(error, "2^59 elements")), wrong, ": ", error);
  }
  CHECK(has(load_error(changed("mlp", R"("max_val": null)", R"("max_val": -1)")), "range of s77 is empty"));
}

TEST_CASE("a size that nothing gives") {
  std::string error = load_error(changed("shapes", "PythonMod(Mul(Integer(-1), Symbol('s27'", "PythonMod(Mul(Integer(-1), Symbol('s99'"));
  CHECK_MESSAGE(has(error, "s99 is used, but nothing gives its value"), error);
  CHECK(has(load_error(changed("shapes", R"("end", "arg": {"as_sym_int": {"as_name": "mul_2"}})",
                               R"("end", "arg": {"as_sym_int": {"as_name": "nothing"}})")),
            "symbol nothing is not defined"));
}

TEST_CASE("a recorded type that is not what the operator gives") {
  for (bool interpret : {false, true}) {
    std::string bytes = changed("mlp", R"({"name": "dim", "arg": {"as_int": -1})", R"({"name": "dim", "arg": {"as_int": 2})");
    CHECK(has(compile_error(bytes, interpret), "softmax"));
    bytes = changed("mlp", "torch.ops.aten.silu.default", "torch.ops.aten.logical_not.default");
    CHECK(has(compile_error(bytes, interpret), "the program records"));
  }
}

TEST_CASE("pytrees have a leaf for each input and output, and keys for the children of dicts") {
  std::string leaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";
  CHECK(load_error(changed("mlp", leaf, leaf + ", " + leaf)) == "model.json: in_spec has more leaves than the graph, which has 1");
  CHECK(load_error(changed("mlp", leaf, "")) == "model.json: in_spec has 0 leaves, the graph 1");
  CHECK(has(load_error(changed("mlp", R"([\\\"logits\\\", )", "[")), "1 keys of 2 children"));
  CHECK(load_error(changed("mlp", leaf, R"({\"type\": null, \"context\": null, \"children_spec\": [)" + leaf + "]}")) ==
        "model.json: a leaf of a pytree has children");
}

} // namespace tenon::pt2_test
