// The pickle stack machine, protocols 0 to 5 (opcodes as in Python's pickletools), with the calls that torch.save needs
// replaced by fixed code. Everything else it is told to call becomes an Object node.
#include "load/pickle_machine.h"

#include <charconv>
#include <utility>

namespace tenon {

namespace {

/// "builtins" was "__builtin__" up to protocol 2.
std::string global_name(std::string_view module, std::string_view name) {
  if (module == "__builtin__") module = "builtins";
  return fmt::format("{}.{}", module, name);
}

void append_utf8(std::string& out, uint32_t c) {
  auto put = [&](uint32_t b) { out += static_cast<char>(b); };
  if (c < 0x80) put(c);
  else if (c < 0x800) put(0xc0 | c >> 6), put(0x80 | (c & 63));
  else if (c < 0x10000) put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
  else put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
}

class Machine {
public:
  Machine(Bytes pickle, const std::string& what, const PickleLimits& limits, TensorBuilder& builder)
      : in_(pickle, what), what_(what), limits_(limits), builder_(builder) {}

  PickleGraph run() {
    while (true) {
      at_ = in_.at();
      auto op = in_.read<uint8_t>();
      if (op == '.') break;
      if (!stack_op(op) && !scalar_op(op) && !text_op(op) && !container_op(op) && !object_op(op))
        fail("the opcode 0x{:02x} is unknown, or has no place in a torch.save file", op);
    }
    graph_.root = pop();
    return std::move(graph_);
  }

private:
  template <class... A> [[noreturn]] void fail(fmt::format_string<A...> f, A&&... a) const {
    bad_input("{} at offset {}: {}", what_, at_, fmt::format(f, std::forward<A>(a)...));
  }

  // The stack.
  PickleNode& node(PickleRef r) { return graph_.nodes[r]; }
  PickleRef make(PickleNode n) {
    if (graph_.nodes.size() >= limits_.objects) fail("more than {} objects", limits_.objects);
    graph_.nodes.push_back(std::move(n));
    return static_cast<PickleRef>(graph_.nodes.size() - 1);
  }
  void push(PickleRef r) {
    if (stack_.size() >= limits_.objects) fail("more than {} values on the stack", limits_.objects);
    stack_.push_back(r);
  }
  void push(PickleNode n) { push(make(std::move(n))); }
  void push_int(PickleKind kind, int64_t v) {
    PickleNode n;
    n.kind = kind, n.integer = v;
    push(std::move(n));
  }
  void push_float(double v) {
    PickleNode n;
    n.kind = PickleKind::Float, n.real = v;
    push(std::move(n));
  }
  void push_text(PickleKind kind, std::string text) {
    PickleNode n;
    n.kind = kind, n.text = std::move(text);
    push(std::move(n));
  }
  void push_items(PickleKind kind, std::vector<PickleRef> items) {
    PickleNode n;
    n.kind = kind, n.items = std::move(items);
    push(std::move(n));
  }
  PickleRef top() const {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("the stack is empty");
    return stack_.back();
  }
  PickleRef pop() {
    PickleRef r = top();
    stack_.pop_back();
    return r;
  }
  std::vector<PickleRef> pop_n(size_t n) {
    std::vector<PickleRef> out(n);
    while (n-- > 0) out[n] = pop();
    return out;
  }
  std::vector<PickleRef> pop_mark() {
    if (marks_.empty()) fail("a mark is missing");
    std::vector<PickleRef> out(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }
  /// Copies of memoized values cost the pickle a few bytes each, and so are limited by what they weigh here.
  void charge(size_t bytes) {
    copied_ += bytes;
    if (copied_ > limits_.copied_bytes) fail("copies of shared values exceed {} bytes", limits_.copied_bytes);
  }
  template <class T> T number(std::string_view text) const {
    T v{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc() || end != text.data() + text.size()) fail("{} is not a number of this kind", quoted(text));
    return v;
  }

  bool stack_op(uint8_t op) {
    switch (op) {
    case 0x80: // PROTO
      if (auto version = in_.read<uint8_t>(); version > 5) fail("protocol {} is not known", version);
      return true;
    case 0x95: in_.read<uint64_t>(); return true; // FRAME: a hint for buffering
    case '(':
      if (marks_.size() >= limits_.objects) fail("more than {} marks", limits_.objects);
      marks_.push_back(stack_.size());
      return true;
    case '0': // POP, which also takes a mark
      if (!marks_.empty() && marks_.back() == stack_.size()) marks_.pop_back();
      else pop();
      return true;
    case '1': pop_mark(); return true;
    case '2': push(top()); return true;
    case 'p': remember(number<uint32_t>(in_.line())); return true;
    case 'q': remember(in_.read<uint8_t>()); return true;
    case 'r': remember(in_.read<uint32_t>()); return true;
    case 0x94: remember(static_cast<uint32_t>(memo_.size())); return true; // MEMOIZE
    case 'g': recall(number<uint32_t>(in_.line())); return true;
    case 'h': recall(in_.read<uint8_t>()); return true;
    case 'j': recall(in_.read<uint32_t>()); return true;
    default: return false;
    }
  }
  void remember(uint32_t key) {
    memo_[key] = top();
    if (memo_.size() > limits_.objects) fail("more than {} memo entries", limits_.objects);
  }
  void recall(uint32_t key) {
    auto at = memo_.find(key);
    if (at == memo_.end()) fail("memo {} was never set", key);
    push(at->second);
  }

  bool scalar_op(uint8_t op) {
    switch (op) {
    case 'N': push(PickleNode{}); return true;
    case 0x88: push_int(PickleKind::Bool, 1); return true;
    case 0x89: push_int(PickleKind::Bool, 0); return true;
    case 'J': push_int(PickleKind::Int, in_.read<int32_t>()); return true;
    case 'K': push_int(PickleKind::Int, in_.read<uint8_t>()); return true;
    case 'M': push_int(PickleKind::Int, in_.read<uint16_t>()); return true;
    case 0x8a: long_int(in_.take(in_.read<uint8_t>())); return true;
    case 0x8b: long_int(in_.take(in_.read<uint32_t>())); return true;
    case 'I': { // "00" and "01" are the booleans of protocol 0
      auto text = in_.line();
      if (text == "00" || text == "01") push_int(PickleKind::Bool, text == "01");
      else push_int(PickleKind::Int, number<int64_t>(text));
      return true;
    }
    case 'L': {
      auto text = in_.line();
      if (text.ends_with('L')) text.remove_suffix(1);
      push_int(PickleKind::Int, number<int64_t>(text));
      return true;
    }
    case 'F': push_float(number<double>(in_.line())); return true;
    case 'G': push_float(std::bit_cast<double>(__builtin_bswap64(in_.read<uint64_t>()))); return true;
    default: return false;
    }
  }
  /// Two's complement, little-endian.
  void long_int(Bytes b) {
    uint64_t v = 0;
    if (b.size() > 8) unsupported("{} at offset {}: an integer of {} bytes does not fit in 64 bits", what_, at_, b.size());
    for (size_t i = 0; i < b.size(); i++) v |= static_cast<uint64_t>(b[i]) << (8 * i);
    if (!b.empty() && b.size() < 8 && (b.back() & std::byte{0x80}) != std::byte{}) v |= ~uint64_t{0} << (8 * b.size());
    push_int(PickleKind::Int, static_cast<int64_t>(v));
  }

  bool text_op(uint8_t op) {
    auto text = [&](PickleKind kind, uint64_t size) { push_text(kind, std::string(in_.text(size))); };
    switch (op) {
    case 'U': text(PickleKind::String, in_.read<uint8_t>()); return true;
    case 'T': text(PickleKind::String, in_.read<uint32_t>()); return true;
    case 0x8c: text(PickleKind::String, in_.read<uint8_t>()); return true;
    case 'X': text(PickleKind::String, in_.read<uint32_t>()); return true;
    case 0x8d: text(PickleKind::String, in_.read<uint64_t>()); return true;
    case 'C': text(PickleKind::Bytes, in_.read<uint8_t>()); return true;
    case 'B': text(PickleKind::Bytes, in_.read<uint32_t>()); return true;
    case 0x8e:
    case 0x96: text(PickleKind::Bytes, in_.read<uint64_t>()); return true;
    case 'V': push_text(PickleKind::String, unescape_unicode(in_.line())); return true;
    case 'S': { // only what needs no unescaping
      auto line = in_.line();
      if (line.size() < 2 || line.front() != line.back() || line.find('\\') != std::string_view::npos)
        fail("unreadable string {}", quoted(line));
      push_text(PickleKind::String, std::string(line.substr(1, line.size() - 2)));
      return true;
    }
    default: return false;
    }
  }
  /// Python's raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX.
  std::string unescape_unicode(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); i++) {
      size_t digits = 0;
      if (text[i] == '\\' && i + 1 < text.size()) digits = text[i + 1] == 'u' ? 4 : text[i + 1] == 'U' ? 8 : 0;
      uint32_t c = static_cast<unsigned char>(text[i]);
      if (digits != 0) {
        auto hex = text.substr(i + 2, digits);
        auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), c, 16);
        if (error != std::errc() || end != hex.data() + digits || c > 0x10ffff) fail("bad escape in {}", quoted(text));
        i += digits + 1;
      }
      append_utf8(out, c);
    }
    return out;
  }

  bool container_op(uint8_t op) {
    switch (op) {
    case ')': push_items(PickleKind::Tuple, {}); return true;
    case 0x85:
    case 0x86:
    case 0x87: push_items(PickleKind::Tuple, pop_n(op - 0x84u)); return true;
    case 't': push_items(PickleKind::Tuple, pop_mark()); return true;
    case ']': push_items(PickleKind::List, {}); return true;
    case 'l': push_items(PickleKind::List, pop_mark()); return true;
    case '}': push_items(PickleKind::Dict, {}); return true;
    case 'd': {
      auto items = pop_mark();
      push_items(PickleKind::Dict, {});
      set_items(items);
      return true;
    }
    case 'a': append({pop()}); return true;
    case 'e': append(pop_mark()); return true;
    case 's': set_items(pop_n(2)); return true;
    case 'u': set_items(pop_mark()); return true;
    case 0x8f: call("builtins.set", {}, false); return true; // EMPTY_SET
    case 0x90: append(pop_mark()); return true;              // ADDITEMS
    case 0x91: {                                             // FROZENSET
      auto items = pop_mark();
      call("builtins.frozenset", {}, false);
      append(items);
      return true;
    }
    default: return false;
    }
  }
  void append(const std::vector<PickleRef>& items) {
    PickleNode& to = node(top());
    if (to.kind == PickleKind::List) to.items.insert(to.items.end(), items.begin(), items.end());
    else if (to.kind == PickleKind::Object && to.pairs.empty() && items.empty()) return;
    else if (to.kind == PickleKind::Object) {
      PickleRef none = make({}), object = top();
      for (PickleRef i : items) node(object).pairs.insert(node(object).pairs.end(), {none, i});
    } else fail("appending to something that is not a list");
  }
  void set_items(const std::vector<PickleRef>& items) {
    PickleNode& to = node(top());
    if (items.size() % 2 != 0) fail("a dictionary's key has no value");
    if (to.kind != PickleKind::Dict && to.kind != PickleKind::Object) fail("setting items of something that is not a dictionary");
    auto& pairs = to.kind == PickleKind::Dict ? to.items : to.pairs;
    pairs.insert(pairs.end(), items.begin(), items.end());
  }

  bool object_op(uint8_t op) {
    switch (op) {
    case 'c': {
      auto module = in_.line(), name = in_.line();
      push_text(PickleKind::Global, global_name(module, name));
      return true;
    }
    case 0x93: { // STACK_GLOBAL
      PickleRef name = pop(), module = pop();
      if (node(name).kind != PickleKind::String || node(module).kind != PickleKind::String) fail("a class without a name");
      charge(node(module).text.size() + node(name).text.size());
      push_text(PickleKind::Global, global_name(node(module).text, node(name).text));
      return true;
    }
    case 'R':
    case 0x81: { // REDUCE, NEWOBJ
      PickleRef args = pop(), callee = pop();
      if (node(callee).kind != PickleKind::Global || node(args).kind != PickleKind::Tuple) fail("calling something that is not a class");
      call(node(callee).text, node(args).items, op == 0x81);
      return true;
    }
    case 0x92: { // NEWOBJ_EX: keyword arguments last
      PickleRef keywords = pop(), args = pop(), callee = pop();
      if (node(callee).kind != PickleKind::Global || node(args).kind != PickleKind::Tuple) fail("calling something that is not a class");
      auto items = node(args).items;
      items.push_back(keywords);
      call(node(callee).text, std::move(items), true);
      return true;
    }
    case 'b': build(pop()); return true;
    case 'Q': persistent(pop()); return true;
    default: return false;
    }
  }
  /// Attributes of an object; those of a dict, list or tensor (an OrderedDict's _metadata) are dropped.
  void build(PickleRef state) {
    PickleNode& to = node(top());
    if (to.kind == PickleKind::Object) to.other = state;
    else if (to.kind != PickleKind::Dict && to.kind != PickleKind::List && to.kind != PickleKind::Tensor)
      fail("setting attributes of a plain value");
  }
  /// ("storage", torch.FloatStorage, key, device, number of elements)
  void persistent(PickleRef id) {
    PickleNode n;
    n.kind = PickleKind::Storage;
    auto& t = node(id);
    bool known = t.kind == PickleKind::Tuple && t.items.size() >= 5 && node(t.items[0]).kind == PickleKind::String &&
                 node(t.items[0]).text == "storage" && node(t.items[1]).kind == PickleKind::Global &&
                 node(t.items[2]).kind == PickleKind::String && node(t.items[4]).kind == PickleKind::Int;
    if (!known) fail("a persistent id that is not a storage");
    charge(node(t.items[2]).text.size());
    n.other = t.items[1], n.text = node(t.items[2]).text, n.integer = node(t.items[4]).integer;
    push(std::move(n));
  }

  void call(std::string callee, std::vector<PickleRef> args, bool is_new) {
    charge(callee.size() + args.size() * sizeof(PickleRef));
    if (callee.starts_with("torch.") && call_torch(callee, args)) return;
    if (call_python(callee, args)) return;
    PickleNode n;
    n.kind = PickleKind::Object, n.is_new = is_new, n.text = std::move(callee), n.items = std::move(args);
    push(std::move(n));
  }
  bool call_torch(const std::string& f, const std::vector<PickleRef>& args) {
    if (f == "torch._utils._rebuild_tensor" || f == "torch._utils._rebuild_tensor_v2") {
      push_tensor(args, no_ref);
    } else if (f == "torch._utils._rebuild_tensor_v3") {
      if (args.size() < 7) fail("a saved tensor has {} arguments, not at least 7", args.size());
      push_tensor(args, args[6]);
    } else if (f == "torch._utils._rebuild_parameter" || f == "torch._utils._rebuild_parameter_with_state") {
      if (args.empty() || node(args[0]).kind != PickleKind::Tensor) fail("a parameter without a tensor");
      push(args[0]);
    } else if (f == "torch._tensor._rebuild_from_type_v2") { // (function, class, arguments, attributes)
      bool known = args.size() == 4 && node(args[0]).kind == PickleKind::Global && node(args[2]).kind == PickleKind::Tuple;
      if (!known || node(args[0]).text == f) fail("a tensor subclass is not described as torch does");
      call(node(args[0]).text, node(args[2]).items, false);
      if (PickleNode& made = node(top()); made.kind == PickleKind::Object) made.other = args[3];
    } else if (f == "torch.Size") {
      if (args.size() != 1 || node(args[0]).kind != PickleKind::Tuple) fail("a torch.Size that is not made of a tuple");
      push(args[0]);
    } else return false;
    return true;
  }
  void push_tensor(const std::vector<PickleRef>& args, PickleRef dtype) {
    PickleNode n;
    n.kind = PickleKind::Tensor, n.integer = static_cast<int64_t>(graph_.tensors.size());
    graph_.tensors.push_back(builder_.build(graph_, args, dtype));
    charge(graph_.tensors.back().rank() * 2 * sizeof(int64_t));
    push(std::move(n));
  }
  bool call_python(const std::string& f, const std::vector<PickleRef>& args) {
    if (f == "collections.OrderedDict") {
      push_items(PickleKind::Dict, {});
      if (!args.empty()) set_pairs(args[0]);
    } else if (f == "collections.defaultdict") {
      push_items(PickleKind::Dict, {});
    } else if (f == "collections.deque" || f == "builtins.list") {
      bool given = !args.empty() && (node(args[0]).kind == PickleKind::List || node(args[0]).kind == PickleKind::Tuple);
      if (given) charge(node(args[0]).items.size() * sizeof(PickleRef));
      push_items(PickleKind::List, given ? node(args[0]).items : std::vector<PickleRef>{});
    } else if (f == "_codecs.encode") { // bytes, in protocol 2: their Latin-1 text
      if (args.size() != 2 || node(args[0]).kind != PickleKind::String || node(args[1]).kind != PickleKind::String ||
          node(args[1]).text != "latin1")
        fail("bytes that are not encoded as Latin-1");
      charge(node(args[0]).text.size());
      push_text(PickleKind::Bytes, latin1(node(args[0]).text));
    } else if (f == "builtins.bytearray" || f == "builtins.bytes") {
      bool given = args.size() == 1 && node(args[0]).kind == PickleKind::Bytes;
      if (!given && !args.empty()) fail("bytes made of something else");
      if (given) charge(node(args[0]).text.size());
      push_text(PickleKind::Bytes, given ? node(args[0]).text : std::string());
    } else return false;
    return true;
  }
  /// Items of an OrderedDict given as a list of pairs, as Python 2 and protocol 0 do.
  void set_pairs(PickleRef list) {
    std::vector<PickleRef> flat;
    charge(node(list).items.size() * 2 * sizeof(PickleRef));
    for (PickleRef pair : node(list).items) {
      auto& items = node(pair).items;
      bool is_pair = (node(pair).kind == PickleKind::List || node(pair).kind == PickleKind::Tuple) && items.size() == 2;
      if (!is_pair) fail("an OrderedDict made of something that is not a list of pairs");
      flat.insert(flat.end(), items.begin(), items.end());
    }
    set_items(flat);
  }
  std::string latin1(const std::string& utf8) const {
    std::string out;
    for (size_t i = 0; i < utf8.size(); i++) {
      auto c = static_cast<unsigned char>(utf8[i]);
      if (c >= 0x80) {
        if ((c & 0xfc) != 0xc0 || ++i == utf8.size()) fail("bytes with a character outside Latin-1");
        c = static_cast<unsigned char>(c << 6 | (static_cast<unsigned char>(utf8[i]) & 63));
      }
      out += static_cast<char>(c);
    }
    return out;
  }

  ByteReader in_;
  const std::string& what_;
  const PickleLimits& limits_;
  TensorBuilder& builder_;
  PickleGraph graph_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, PickleRef> memo_;
  size_t copied_ = 0;
  size_t at_ = 0; // of the current opcode
};

} // namespace

PickleGraph run_pickle(Bytes pickle, const std::string& what, const PickleLimits& limits, TensorBuilder& builder) {
  require_input(pickle.size() <= limits.pickle_bytes, "{}: {} bytes are more than the limit of {}", what, pickle.size(),
                limits.pickle_bytes);
  return Machine(pickle, what, limits, builder).run();
}

} // namespace tenon
