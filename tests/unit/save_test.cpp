// Programs written as .pt2: what is read back is what was written. That torch reads them too is checked by tests/fixtures/save.py.
#include <doctest/doctest.h>

#include <filesystem>

#include "load/archive.h"
#include "tenon/tenon.h"
#include "tests/unit/load_samples.h"

namespace tenon::save_test {

namespace {

std::string fixture(const std::string& name) { return std::string(TENON_FIXTURES) + "/" + name + ".pt2"; }

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / ("tenon_save_" + std::to_string(getpid()))).string();
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  Tensor x = a.contiguous(), y = b.contiguous();
  return x.numel() == 0 || std::memcmp(x.data(), y.data(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

void check_same_weights(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); i++) {
    CHECK(a[i].name == b[i].name);
    CHECK_MESSAGE(same_bits(a[i].tensor, b[i].tensor), a[i].name);
  }
}

void check_same(const Program& a, const Program& b) {
  CHECK(b.dump("aten").value() == a.dump("aten").value());
  ir::GraphSignature s = a.signature(), t = b.signature();
  REQUIRE(s.input_specs.size() == t.input_specs.size());
  for (size_t i = 0; i < s.input_specs.size(); i++) {
    CHECK(s.input_specs[i].kind == t.input_specs[i].kind);
    CHECK(s.input_specs[i].name == t.input_specs[i].name);
    CHECK(s.input_specs[i].target == t.input_specs[i].target);
    CHECK(s.input_specs[i].persistent == t.input_specs[i].persistent);
    CHECK(s.input_specs[i].fixed.has_value() == t.input_specs[i].fixed.has_value());
  }
  REQUIRE(s.output_specs.size() == t.output_specs.size());
  for (size_t i = 0; i < s.output_specs.size(); i++) {
    CHECK(s.output_specs[i].kind == t.output_specs[i].kind);
    CHECK(s.output_specs[i].target == t.output_specs[i].target);
  }
  check_same_weights(a.state_dict(), b.state_dict());
  check_same_weights(a.constants(), b.constants());
  CHECK(a.module_call_graph().size() == b.module_call_graph().size());
  CHECK(a.module_call_graph()[0].in_spec == b.module_call_graph()[0].in_spec);
}

void check_same_results(const Program& a, const Program& b) {
  std::vector<Tensor> x, y, inputs = a.example_inputs().value(), again = b.example_inputs().value();
  a.compile().value().run(inputs, x).check();
  b.compile().value().run(again, y).check();
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); i++) CHECK(same_bits(x[i], y[i]));
}

} // namespace

TEST_CASE("saved programs are the ones that were loaded") {
  Folder folder;
  for (std::string name :
       {"programs/mlp", "programs/kwargs_tree", "programs/lstm", "programs/buffer_mutation", "programs/indexing", "programs/bf16_mlp",
        "programs/gpt_block", "programs/inplace_views", "programs/cond", "control/associative", "graphs/joint", "graphs/step"}) {
    CAPTURE(name);
    Program p = Program::load(fixture(name)).value();
    std::string path = folder.path + "/again.pt2";
    p.save(path).check();
    Program q = Program::load(path).value();
    check_same(p, q);
    check_same_results(p, q);
    q.save(folder.path + "/again2.pt2").check();
    check_same(q, Program::load(folder.path + "/again2.pt2").value());
  }
}

TEST_CASE("saved after a pass: new constants are inputs of the file") {
  Folder folder;
  Program p = Program::load(fixture("programs/mlp")).value();
  ir::PassManager passes("aten");
  passes.add("shift", [](ir::Graph& g) {
    Tensor t(DType::F32, {1});
    t.data_as<float>()[0] = 0.5;
    g.block().replaceOutput(0, g.insert("aten::add.Tensor", {g.outputs()[0], g.insertConstant(t)}));
    return true;
  });
  Program changed = p.transform(passes).value();
  changed.save(folder.path + "/changed.pt2").check();
  Program q = Program::load(folder.path + "/changed.pt2").value();
  CHECK(q.constants().size() == p.constants().size() + 1);
  check_same_results(changed, q);
}

TEST_CASE("files are zips as torch writes them; weights that share memory are there once") {
  Folder folder;
  std::string path = folder.path + "/model.pt2";
  Program p = Program::load(fixture("programs/mlp")).value();
  p.save(path).check();
  Archive a = Archive::map(path);
  CHECK(a.top() == "model/");
  for (std::string_view name : a.names()) {
    const Archive::Entry& e = *a.entry(name);
    CHECK_FALSE(e.deflated);
    CHECK(reinterpret_cast<uintptr_t>(e.data.data()) % 64 == reinterpret_cast<uintptr_t>(a.file().data()) % 64);
    a.check_crc(name, e.data);
  }
  Program q = Program::load(fixture("programs/gpt_block")).value();
  q.save(path).check();
  size_t before = Archive::map(path).file().size();
  std::vector<NamedTensor> same; // the first weight in the place of all of its size
  size_t bytes = 0;
  for (auto& w : q.state_dict())
    if (Tensor first = q.state_dict()[0].tensor; w.tensor.dtype() == first.dtype() && w.tensor.sizes() == first.sizes())
      same.push_back({w.name, first}), bytes = static_cast<size_t>(first.numel()) * size_of(first.dtype());
  REQUIRE(same.size() > 1);
  q.with_state_dict(same).value().save(path).check();
  CHECK(Archive::map(path).file().size() <= before - (same.size() - 1) * bytes);
}

TEST_CASE("what has no form in a file is refused by name, and leaves no file") {
  Folder folder;
  std::string path = folder.path + "/no.pt2";
  Program p = Program::load(fixture("programs/mlp")).value();
  Status edge = p.transform(ir::PassManager("edge").add("none", [](ir::Graph&) { return false; })).value().save(path);
  REQUIRE_FALSE(edge.ok());
  CHECK(edge.error().kind == ErrorKind::Unsupported);
  CHECK(has(edge.error().what(), "Edge"));
  Status size = Program::load(fixture("control/size_math")).value().save(path);
  REQUIRE_FALSE(size.ok());
  CHECK(size.error().kind == ErrorKind::Unsupported);
  CHECK(has(size.error().what(), "pow(f64(s77)/f64(s27), 0.5)"));
  CHECK(std::filesystem::is_empty(folder.path));
  Status nowhere = p.save(folder.path + "/none/model.pt2");
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().kind == ErrorKind::BadInput);
}

} // namespace tenon::save_test
