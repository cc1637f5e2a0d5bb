// load/pickle: files of torch.save, pickles that attack, and damage at every place.
#include <doctest/doctest.h>

#include "load/archive.h"
#include "load/pickle.h"
#include "tests/unit/load_samples.h"

namespace tenon::pickle_test {

namespace {

std::string show(const PickleValue& v);

std::string show_all(const std::vector<PickleValue>& list) {
  std::string out;
  for (auto& x : list) out.append(out.empty() ? "" : " ").append(show(x));
  return out;
}
std::string show_pairs(const std::vector<PicklePair>& list) {
  std::string out;
  for (auto& [k, x] : list) out.append(out.empty() ? "" : " ").append(show(k)).append(":").append(show(x));
  return out;
}
std::string show(const PickleValue& v) {
  if (auto* x = v.as<bool>()) return *x ? "true" : "false";
  if (auto* x = v.as<int64_t>()) return fmt::format("{}", *x);
  if (auto* x = v.as<double>()) return fmt::format("{:.3f}", *x);
  if (auto* x = v.as<std::string>()) return tenon::quoted(*x);
  if (auto* x = v.as<PickleBytes>()) return fmt::format("b{}", tenon::quoted(x->data));
  if (auto* x = v.as<PickleTuple>()) return fmt::format("({})", show_all(x->items));
  if (auto* x = v.as<PickleList>()) return fmt::format("[{}]", show_all(x->items));
  if (auto* x = v.as<PickleDict>()) return fmt::format("{{{}}}", show_pairs(x->items));
  if (auto* x = v.as<Tensor>()) return fmt::format("{}[{}]", name_of(x->dtype()), show_sizes(x->sizes()));
  if (auto* x = v.as<PickleObject>())
    return fmt::format("<{}({}){}{}>", x->class_name, show_all(x->args), x->items.empty() ? "" : " " + show_pairs(x->items),
                       x->state.empty() ? "" : " " + show(x->state[0]));
  return "none";
}

/// A torch.save archive around a pickle made by hand, with one storage of 24 bytes named 0.
std::vector<std::byte> saved(const std::string& pickle) {
  HandZip zip{.entries = {{"archive/data.pkl", pickle}, {"archive/data/0", std::string(24, '\1')}}};
  return zip.bytes();
}
std::string load_text(const std::string& pickle, const PickleLimits& limits = {}) {
  return show(load_torch_save(saved(pickle), nullptr, limits));
}
std::string error_of_pickle(const std::string& pickle, ErrorKind kind = ErrorKind::BadInput, const PickleLimits& limits = {}) {
  return error_thrown_by([&] { load_text(pickle, limits); }, kind);
}
std::string repeat(const std::string& s, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; i++) out += s;
  return out;
}
std::string integer(int64_t v) { return Blob().add("\x8a\x08").put(v).text; }
std::string tuple_of(const std::vector<int64_t>& list) {
  std::string out = "(";
  for (int64_t v : list) out += integer(v);
  return out + "t";
}
/// The pickle of a tensor over storage 0.
std::string tensor(int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t elements = 6,
                   const std::string& storage = "FloatStorage", const std::string& key = "0") {
  std::string id = "(U\x07storagectorch\n" + storage + "\nU" + static_cast<char>(key.size()) + key +
                   "U\x03"
                   "cpu" +
                   integer(elements) + "tQ";
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + id + integer(offset) + tuple_of(sizes) + tuple_of(strides) +
         "\x89"
         "ccollections\nOrderedDict\n)RtR.";
}
const PickleValue& member(const PickleValue& dict, std::string_view name) {
  REQUIRE(dict.as<PickleDict>());
  for (auto& [k, v] : dict.as<PickleDict>()->items)
    if (k.as<std::string>() && *k.as<std::string>() == name) return v;
  FAIL("no member ", name);
  return dict;
}

} // namespace

TEST_CASE("values of torch.save") {
  auto bytes = sample("values.pt");
  PickleValue all = load_torch_save(bytes, nullptr);
  auto text = [&](const char* name) { return show(member(all, name)); };
  CHECK(text("dtypes") == "[bool[3] u8[3] i8[3] i16[3] i32[3] i64[3] f16[3] bf16[3] f32[3] f64[3] c64[3]]");
  CHECK(text("scalar") == "f32[]");
  CHECK(text("empty") == "f32[0,3]");
  CHECK(text("parameter") == "f32[2]");
  CHECK(text("subclass") == "f32[2]");
  CHECK(text("plain") == "[none true false 7 -7 70000 -1099511627776 1.500 inf 'text \\xe2\\x82\\xac' b'\\x00\\xff\\x80' b'xyz']");
  CHECK(text("nested") == "(() [] {} {'b':1 'a':2} {'k':[3]} [4])");
  CHECK(text("torch") == "((2 3) <torch.device('cpu')> <torch.float32()> <builtins.complex(1.000 2.000)> <builtins.set([5])>)");
  CHECK(text("point") == "<sample.Point(f32[1] 6)>");
  CHECK(text("pair") == "<sample.Pair() {'a':f32[1] 'b':none 'scale':0.500}>");
  CHECK(*member(all, "scalar").as<Tensor>()->data_as<float>() == 2.5f);
}

TEST_CASE("tensors share storages, with offsets and strides") {
  auto bytes = sample("values.pt");
  PickleValue all = load_torch_save(bytes, nullptr);
  auto& shared = member(all, "shared").as<PickleTuple>()->items;
  const Tensor &big = *shared[0].as<Tensor>(), &turned = *shared[1].as<Tensor>(), &strided = *shared[2].as<Tensor>();
  CHECK(turned.data_as<float>() == big.data_as<float>() + 4);
  CHECK(turned.sizes() == std::vector<int64_t>{4, 3});
  CHECK(turned.strides() == std::vector<int64_t>{1, 4});
  CHECK(strided.strides() == std::vector<int64_t>{0, 2});
  Tensor dense = strided.contiguous();
  for (int i = 0; i < 6; i++) CHECK(dense.data_as<float>()[i] == static_cast<float>(5 + i % 3 * 2));
  auto* p = static_cast<std::byte*>(big.data());
  CHECK((p >= bytes.data() && p < bytes.data() + bytes.size()));
}

TEST_CASE("leaves are those of torch's pytree") {
  PickleValue all = load_torch_save(sample("values.pt"), nullptr);
  auto leaves = [&](const char* name) { return show_all(flatten(member(all, name))); };
  CHECK(leaves("nested") == "1 2 3 4");
  CHECK(leaves("point") == "f32[1] 6");
  CHECK(leaves("pair") == "f32[1] 0.500");
  CHECK(leaves("cache") == "f32[1] f32[2] f32[3] f32[4]");
  CHECK(leaves("torch") == "2 3 <torch.device('cpu')> <torch.float32()> <builtins.complex(1.000 2.000)> <builtins.set([5])>");
  CHECK(flatten(member(all, "plain")).size() == 12);
  CHECK(show_all(flatten(PickleValue{})) == "none");
}

TEST_CASE("all protocols; misaligned archives; the owner is shared") {
  for (const char* file : {"protocol3.pt", "protocol4.pt", "protocol5.pt"}) {
    CAPTURE(file);
    auto bytes = sample(file);
    CHECK(show(load_torch_save(bytes, nullptr)) ==
          "([none true false 7 -7 70000 -1099511627776 1.500 inf 'text \\xe2\\x82\\xac' b'\\x00\\xff\\x80' b'xyz'] "
          "(() [] {} {'b':1 'a':2} {'k':[3]} [4]) f32[24])");
  }
  for (const char* file : {"small.pt", "unaligned.pt"})
    for (size_t shift = 0; shift < 9; shift++) {
      auto bytes = std::make_shared<std::vector<std::byte>>(sample(file));
      bytes->insert(bytes->begin(), shift, std::byte{});
      PickleValue v = load_torch_save(Bytes(*bytes).subspan(shift), bytes);
      auto leaves = flatten(v);
      bytes.reset();
      REQUIRE(show_all(leaves) == "i64[3,2] bool[3]");
      const Tensor& t = *leaves[0].as<Tensor>();
      CHECK(is_aligned(t.data(), DType::I64));
      CHECK(t.strides() == std::vector<int64_t>{1, 3});
      for (int i = 0; i < 6; i++) CHECK(t.data_as<int64_t>()[i] == i);
    }
}

TEST_CASE("complex tensors of doubles") { CHECK(show(load_torch_save(sample("complex128.pt"), nullptr)) == "[c128[2]]"); }

TEST_CASE("what tenon does not have is named") {
  auto error = [](const char* file) { return error_thrown_by([&] { load_torch_save(sample(file), nullptr); }, ErrorKind::Unsupported); };
  CHECK(has(error("uint16.pt"), "'torch.uint16'"));
  CHECK(has(error("conj.pt"), "'conj'"));
  CHECK(has(error("legacy.pt"), "before 1.6"));
  HandZip big{.entries = {{"a/data.pkl", "N."}, {"a/byteorder", "big"}}};
  CHECK(has(error_thrown_by([&] { load_torch_save(big.bytes(), nullptr); }, ErrorKind::Unsupported), "byte order 'big'"));
  CHECK(has(error_thrown_by([] { load_torch_save(sample("small.npz"), nullptr); }), "no entry 'data.pkl'"));
  CHECK(has(error_of_pickle(std::string("\x8a\x09", 2) + std::string(9, '\1') + ".", ErrorKind::Unsupported), "9 bytes"));
}

TEST_CASE("opcodes of old protocols") {
  CHECK(load_text("(I01\nI00\nI-5\nL7L\nF1.5\nS'ab'\nVa\\u20ac\nNt.") == "(true false -5 7 1.500 'ab' 'a\\xe2\\x82\\xac' none)");
  CHECK(load_text("(lp0\nI1\nag0\n0.") == "[1]");
  CHECK(load_text("(S'a'\nI1\nd.") == "{'a':1}");
  CHECK(load_text(std::string("\x8a\x01\xff\x8a\x02\x00\x80\x86", 8) + ".") == "(-1 -32768)");
}

TEST_CASE("nothing is called, whatever it is") {
  CHECK(load_text("cos\nsystem\n(S'true'\ntR.") == "<os.system('true')>");
  CHECK(load_text("c__builtin__\neval\nS'1'\n\x85R}S'a'\nK\x01sb.") == "<builtins.eval('1') {'a':1}>");
  CHECK(load_text("cx\ny\n.") == "<x.y()>");
  CHECK(load_text("cm\nD\n)\x81(S'a'\nK\x01u.") == "<m.D() 'a':1>");
  CHECK(load_text("(cm\nC\n)\x81K\x01"
                  "aK\x02"
                  "at.") == "(<m.C() none:1 none:2>)");
  CHECK(has(error_of_pickle("K\x01)R."), "not a class"));
  CHECK(has(error_of_pickle("cos\nsystem\n(S'a'\ntRcos\nsystem\n)RR."), "not a class"));
  CHECK(has(error_of_pickle("(I1\ncos\nsystem\no."), "0x6f is unknown"));
  CHECK(has(error_of_pickle("(ios\nsystem\n."), "0x69 is unknown"));
  CHECK(has(error_of_pickle("\x82\x01."), "0x82 is unknown"));
  CHECK(has(error_of_pickle("K\x01Q."), "not a storage"));
}

TEST_CASE("broken programs are refused with their offset") {
  CHECK(has(error_of_pickle(""), "1 bytes wanted at offset 0"));
  CHECK(has(error_of_pickle("."), "at offset 0: the stack is empty"));
  CHECK(has(error_of_pickle("N(."), "the stack is empty"));
  CHECK(load_text("N(0.") == "none");
  CHECK(has(error_of_pickle("Nt."), "a mark is missing"));
  CHECK(has(error_of_pickle("Nh\x05."), "at offset 1: memo 5"));
  CHECK(has(error_of_pickle("(K\x01"
                            "d."),
            "no value"));
  CHECK(has(error_of_pickle("NK\x01"
                            "a."),
            "not a list"));
  CHECK(has(error_of_pickle("NNNs."), "not a dictionary"));
  CHECK(has(error_of_pickle("NNb."), "plain value"));
  CHECK(has(error_of_pickle("\x80\x06N."), "protocol 6"));
  CHECK(has(error_of_pickle("Ix\n."), "'x' is not a number"));
  CHECK(has(error_of_pickle(Blob().add("\x8d").u64(UINT64_MAX).text), "bytes wanted"));
  CHECK(has(error_of_pickle("c__builtin__\n"), "no end"));
  CHECK(has(error_of_pickle("c_codecs\nencode\nV\\u20ac\nU\x06"
                            "latin1\x86R."),
            "outside Latin-1"));
}

TEST_CASE("a tensor must lie within its storage") {
  constexpr int64_t huge = INT64_MAX;
  CHECK(load_text(tensor(0, {2, 3}, {3, 1})) == "f32[2,3]");
  CHECK(load_text(tensor(5, {1}, {huge})) == "f32[1]");
  CHECK(load_text(tensor(0, {4, 2}, {0, 5})) == "f32[4,2]");
  CHECK(load_text(tensor(huge, {0, 1 << 20}, {huge, huge})) == "f32[0,1048576]");
  CHECK(load_text(tensor(0, {3}, {1}, 3, "LongStorage")) == "i64[3]");
  CHECK(load_text(tensor(0, {24}, {1}, 24, "BoolStorage")) == "bool[24]");
  auto error = [](auto... a) { return error_of_pickle(tensor(a...)); };
  using Sizes = std::vector<int64_t>;
  CHECK(has(error(0, Sizes{7}, Sizes{1}), "reaches past the 6 elements"));
  CHECK(has(error(1, Sizes{2, 3}, Sizes{3, 1}), "reaches past"));
  CHECK(has(error(6, Sizes{}, Sizes{}), "reaches past"));
  CHECK(has(error(-1, Sizes{1}, Sizes{1}), "offset -1"));
  CHECK(has(error(0, Sizes{-1}, Sizes{1}), "negative number, -1, in its sizes"));
  CHECK(has(error(3, Sizes{3}, Sizes{-1}), "in its strides"));
  CHECK(has(error(0, Sizes{huge, huge}, Sizes{0, 0}), "overflows"));
  CHECK(has(error(0, Sizes{0, huge}, Sizes{huge, 1}), "overflows")); // its row-major strides would
  CHECK(has(error(0, Sizes{3, 3}, Sizes{huge, huge}), "reaches past"));
  CHECK(has(error(huge, Sizes{2}, Sizes{1}), "reaches past"));
  CHECK(has(error(0, Sizes{2}, Sizes{1, 1}), "1 sizes, but 2 strides"));
  CHECK(has(error(0, Sizes(65, 1), Sizes(65, 1)), "65 dimensions"));
  CHECK(has(error(0, Sizes{1}, Sizes{1}, 7), "should hold 7 elements of f32, but has 24 bytes"));
  CHECK(has(error(0, Sizes{1}, Sizes{1}, huge), "should hold"));
  CHECK(has(error(0, Sizes{1}, Sizes{1}, -1), "should hold -1"));
  CHECK(has(error(0, Sizes{1}, Sizes{1}, 6, "FloatStorage", "nokey"), "no entry 'data/nokey'"));
}

TEST_CASE("values that grow without bound are refused") {
  CHECK(has(error_of_pickle("]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a."), "contains itself"));
  CHECK(has(error_of_pickle(repeat("]", 1000) + repeat("a", 999) + "."), "nested more than 100"));
  CHECK(has(error_of_pickle("(" + repeat(")", 100) + repeat("\x85", 101) + "t."), "nested more than 100"));
  // Thirty doublings of a list.
  CHECK(has(error_of_pickle("]" + repeat("2\x86", 30) + "."), "more than 1048576 parts"));
  // One long string, mentioned often.
  std::string text = Blob().add("X").u32(1 << 20).add(std::string(1 << 20, 's')).text;
  CHECK(has(error_of_pickle("(" + text + repeat("2", 300) + "t."), "bytes of text"));
  // A long tuple of arguments, used often.
  std::string args = "(" + repeat("N", 100000) + "tq" + std::string(1, '\0');
  CHECK(has(error_of_pickle("(" + args + repeat("cos\nsystem\nh" + std::string(1, '\0') + "R", 1000) + "t."), "copies of shared values"));
  PickleLimits few;
  few.objects = 10;
  CHECK(has(error_of_pickle("(" + repeat("N", 10) + "t.", ErrorKind::BadInput, few), "more than 10 objects"));
  CHECK(has(error_of_pickle("N" + repeat("2", 10) + ".", ErrorKind::BadInput, few), "on the stack"));
  CHECK(has(error_of_pickle("N" + repeat("(", 11) + ".", ErrorKind::BadInput, few), "marks"));
  CHECK(has(error_of_pickle("N" + repeat("\x94", 11) + ".", ErrorKind::BadInput, few), "memo entries"));
  few.pickle_bytes = 3;
  CHECK(has(error_of_pickle("NNN.", ErrorKind::BadInput, few), "limit of 3"));
}

TEST_CASE("torch.save files cut and damaged anywhere give errors") {
  auto read = [](Bytes b) { flatten(load_torch_save(b, nullptr)); };
  for (const char* file : {"small.pt", "unaligned.pt", "protocol4.pt"}) CHECK(damage_everywhere(sample(file), read) == 0);
  auto whole = sample("values.pt");
  Archive archive = Archive::view(whole, "x");
  std::string pickle(as_text(archive.get("data.pkl")));
  CHECK(damage_everywhere(to_bytes(pickle), [&](Bytes b) { load_torch_save(saved(std::string(as_text(b))), nullptr); }) == 0);
}

} // namespace tenon::pickle_test
