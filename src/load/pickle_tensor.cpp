// Tensors of a torch.save archive: dtype names, storages, and the bounds of strided views over them.
#include <array>

#include "load/pickle_machine.h"

namespace tenon {

namespace {

struct TypeRow {
  std::string_view storage, dtype; // names in module torch
  DType type;
};
constexpr std::array<TypeRow, num_dtypes> types{{
    {"BoolStorage", "bool", DType::Bool},
    {"ByteStorage", "uint8", DType::U8},
    {"CharStorage", "int8", DType::I8},
    {"ShortStorage", "int16", DType::I16},
    {"IntStorage", "int32", DType::I32},
    {"LongStorage", "int64", DType::I64},
    {"HalfStorage", "float16", DType::F16},
    {"BFloat16Storage", "bfloat16", DType::BF16},
    {"FloatStorage", "float32", DType::F32},
    {"DoubleStorage", "float64", DType::F64},
    {"ComplexFloatStorage", "complex64", DType::C64},
    {"ComplexDoubleStorage", "complex128", DType::C128},
    {"UInt64Storage", "uint64", DType::U64},
    // These have no storage class of their own.
    {"UntypedStorage", "float8_e4m3fn", DType::F8E4M3FN},
    {"UntypedStorage", "float8_e5m2", DType::F8E5M2},
    {"UntypedStorage", "float8_e4m3fnuz", DType::F8E4M3FNUZ},
    {"UntypedStorage", "float8_e5m2fnuz", DType::F8E5M2FNUZ},
}};

bool is_untyped(std::string_view storage) { return storage.ends_with(".UntypedStorage"); }

DType dtype_named(std::string_view name, bool storage) {
  for (auto& row : types)
    if (name.starts_with("torch.") && name.substr(6) == (storage ? row.storage : row.dtype)) return row.type;
  unsupported("a saved tensor has {} {}, which tenon does not have", storage ? "storage class" : "dtype", quoted(name));
}

const PickleNode& node(const PickleGraph& graph, PickleRef ref, PickleKind kind, const char* what) {
  const PickleNode& n = graph.nodes[ref];
  require_input(n.kind == kind, "a saved tensor's {} is of a wrong type", what);
  return n;
}

std::vector<int64_t> ints(const PickleGraph& graph, PickleRef ref, const char* what) {
  std::vector<int64_t> out;
  const PickleNode& tuple = graph.nodes[ref];
  require_input(tuple.kind == PickleKind::Tuple || tuple.kind == PickleKind::List, "a saved tensor's {} is not a tuple", what);
  require_input(tuple.items.size() <= 64, "a saved tensor has {} dimensions; torch allows 64", tuple.items.size());
  for (PickleRef i : tuple.items) {
    out.push_back(node(graph, i, PickleKind::Int, what).integer);
    require_input(out.back() >= 0, "a saved tensor has a negative number, {}, in its {}", out.back(), what);
  }
  return out;
}

/// Conjugate and negative views are lazy in torch: their bytes are not their values.
void refuse_lazy_bits(const PickleGraph& graph, PickleRef metadata) {
  const PickleNode& m = graph.nodes[metadata];
  if (m.kind != PickleKind::Dict) return;
  require_input(m.items.size() <= 64, "a saved tensor has {} pieces of metadata", m.items.size() / 2);
  for (size_t i = 0; i + 1 < m.items.size(); i += 2) {
    const PickleNode &key = graph.nodes[m.items[i]], &value = graph.nodes[m.items[i + 1]];
    if (key.kind == PickleKind::String && value.kind == PickleKind::Bool && value.integer != 0)
      unsupported("a tensor was saved as a lazy view with its bit {} set; save x.resolve_conj().resolve_neg()", quoted(key.text));
  }
}

/// One more than the largest element index that the view reaches; false on overflow. Sizes are positive.
bool reach(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset, int64_t& end) {
  end = offset;
  for (size_t d = 0; d < sizes.size(); d++) {
    int64_t span = 0;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &span) || __builtin_add_overflow(end, span, &end)) return false;
  }
  return !__builtin_add_overflow(end, 1, &end);
}

} // namespace

PickleStorage& TensorBuilder::storage(const std::string& key) {
  auto [at, fresh] = storages_.try_emplace(key);
  if (fresh) at->second.raw = {archive_.get("data/" + key), archive_.owner()};
  return at->second;
}

Tensor TensorBuilder::build(const PickleGraph& graph, const std::vector<PickleRef>& args, PickleRef dtype) {
  require_input(args.size() >= 4, "a saved tensor has {} arguments, not at least 4", args.size());
  const PickleNode& store = node(graph, args[0], PickleKind::Storage, "storage");
  const std::string& store_class = graph.nodes[store.other].text;
  DType store_type = is_untyped(store_class) ? DType::U8 : dtype_named(store_class, true);
  DType type = dtype == no_ref ? store_type : dtype_named(node(graph, dtype, PickleKind::Global, "dtype").text, false);
  int64_t offset = node(graph, args[1], PickleKind::Int, "offset").integer;
  auto sizes = ints(graph, args[2], "sizes"), strides = ints(graph, args[3], "strides");
  require_input(sizes.size() == strides.size(), "a saved tensor has {} sizes, but {} strides", sizes.size(), strides.size());
  size_t metadata = dtype == no_ref ? 6 : 7, bytes = 0;
  if (args.size() > metadata) refuse_lazy_bits(graph, args[metadata]);

  PickleStorage& s = storage(store.text);
  auto what = [&] { return fmt::format("a saved tensor over storage {}", quoted(store.text)); };
  size_t room = s.raw.bytes.size();
  require_input(store.integer >= 0 && static_cast<uint64_t>(store.integer) <= room / size_of(store_type),
                "storage {} should hold {} elements of {}, but has {} bytes", quoted(store.text), store.integer, name_of(store_type), room);
  room = static_cast<size_t>(store.integer) * size_of(store_type);
  require_input(count_bytes(sizes, size_of(type), bytes), "{}: its size overflows", what());
  int64_t end = 0, elements = static_cast<int64_t>(room / size_of(type));
  require_input(offset >= 0, "{}: its offset {} is negative", what(), offset);
  if (bytes == 0) offset = 0; // an empty tensor reaches nothing
  else
    require_input(reach(sizes, strides, offset, end) && end <= elements,
                  "{}: it starts at element {} and reaches past the {} elements there", what(), offset, elements);

  const SharedBytes* from = &s.raw;
  if (!is_aligned(s.raw.bytes.data(), type)) {
    if (!s.aligned.owner) s.aligned = copy_bytes(s.raw.bytes, "a misaligned storage");
    from = &s.aligned;
  }
  if (store_type == DType::Bool && !std::exchange(s.checked_bools, true))
    for (std::byte b : s.raw.bytes) require_input(b <= std::byte{1}, "{}: a bool is stored as {}, not 0 or 1", what(), static_cast<int>(b));
  auto* data = const_cast<std::byte*>(from->bytes.data()) + static_cast<size_t>(offset) * size_of(type);
  return Tensor(type, std::move(sizes), std::move(strides), from->owner, data);
}

} // namespace tenon
