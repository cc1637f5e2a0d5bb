// Script graphs to code.
#include <unordered_map>

#include "builtins/resolve.h"
#include "executor/code.h"
#include "executor/constants.h"
#include "ops/call_names.h"
#include "ops/names.h"
#include "script/text.h"

namespace tenon::executor {

namespace {

// Instructions that stand for an operator by themselves.
const std::unordered_map<OpId, OpCode> direct_ops{
    {call::add_int, OpCode::AddInt},     {call::sub_int, OpCode::SubInt},     {call::mul_int, OpCode::MulInt},
    {call::lt_int, OpCode::LtInt},       {call::le_int, OpCode::LeInt},       {call::gt_int, OpCode::GtInt},
    {call::ge_int, OpCode::GeInt},       {call::eq_int, OpCode::EqInt},       {call::ne_int, OpCode::NeInt},
    {call::add_float, OpCode::AddFloat}, {call::sub_float, OpCode::SubFloat}, {call::mul_float, OpCode::MulFloat},
    {call::lt_float, OpCode::LtFloat},   {call::gt_float, OpCode::GtFloat},   {call::and_bool, OpCode::And},
    {call::or_bool, OpCode::Or},         {call::not_bool, OpCode::Not},
};

class CodeBuilder {
public:
  explicit CodeBuilder(const Graph& g) : g_(g) {}

  std::shared_ptr<const Code> run() {
    find_last_uses(g_.top());
    for (ValueId p : g_.block(g_.top()).params) reg(p);
    c_->num_params = c_->num_registers;
    build_block(g_.top());
    std::vector<uint32_t> returns;
    for (const Arg& a : g_.block(g_.top()).returns) returns.push_back(reg(a.get<ValueId>()));
    emit({.code = OpCode::Return}, {}, returns);
    if (!problems_.empty()) bad_input("{}", problems_);
    return c_;
  }

private:
  // ---- registers

  uint32_t fresh() { return c_->num_registers++; }
  uint32_t reg(ValueId v) {
    uint32_t& r = registers_[v];
    if (r == UINT32_MAX) r = fresh();
    return r;
  }

  // The node of its block after which nobody reads a value; none for what the block returns.
  void find_last_uses(BlockId id) {
    const Block& b = g_.block(id);
    for (ValueId p : b.params) block_of_[p] = id;
    for (NodeId n : b.nodes) {
      for (ValueId v : g_.node(n).outputs) block_of_[v] = id;
      for (BlockId inner : g_.node(n).blocks) find_last_uses(inner);
      for_each_use(g_, n, [&](ValueId v) {
        if (block_of_.get(v) == id) last_user_[v] = n;
      });
    }
    for (const Arg& a : b.returns)
      for_each_value(a, [&](ValueId v) {
        if (block_of_.get(v) == id) last_user_[v] = {}, returned_[v] = true;
      });
  }
  bool dies_at(ValueId v, NodeId n) { return last_user_.get(v) == n && !returned_.get(v); }

  // Registers of a node's arguments, those flagged that nobody reads behind it.
  std::vector<uint32_t> args_of(NodeId id) {
    const Node& n = g_.node(id);
    std::vector<uint32_t> out;
    for (const Arg& a : n.args) out.push_back(reg(a.get<ValueId>()));
    for (size_t i = 0; i < n.args.size(); i++) {
      ValueId v = n.args[i].get<ValueId>();
      bool again = false;
      for (size_t k = i + 1; k < n.args.size(); k++) again |= n.args[k].get<ValueId>() == v;
      if (!again && dies_at(v, id)) out[i] |= last_use;
    }
    return out;
  }
  // Of a node that gives one value, though nobody may want it.
  uint32_t one_result(NodeId id) {
    const Node& n = g_.node(id);
    require_input(n.outputs.size() <= 1, "{} gives one value, not {}", n.op, n.outputs.size());
    return n.outputs.empty() ? fresh() : reg(n.outputs[0]);
  }
  std::vector<uint32_t> results_of(NodeId id) {
    std::vector<uint32_t> out;
    for (ValueId v : g_.node(id).outputs) out.push_back(reg(v));
    return out;
  }

  size_t emit(Instruction i, const std::vector<uint32_t>& results, const std::vector<uint32_t>& args) {
    i.results = static_cast<uint16_t>(results.size()), i.args = static_cast<uint32_t>(args.size());
    i.operands = static_cast<uint32_t>(c_->operands.size());
    c_->operands.insert(c_->operands.end(), results.begin(), results.end());
    c_->operands.insert(c_->operands.end(), args.begin(), args.end());
    c_->instructions.push_back(i);
    c_->origins.push_back(origin_);
    return c_->instructions.size() - 1;
  }
  uint32_t here() const { return static_cast<uint32_t>(c_->instructions.size()); }
  uint32_t load(IValue v) {
    uint32_t r = fresh();
    load_into(r, std::move(v));
    return r;
  }
  void load_into(uint32_t r, IValue v) {
    c_->constants.push_back(std::move(v));
    emit({.code = OpCode::Load, .target = static_cast<uint32_t>(c_->constants.size() - 1)}, {r}, {});
  }

  // ---- nodes

  void build_block(BlockId id) {
    for (NodeId n : g_.block(id).nodes) {
      origin_ = g_.node(n).origin;
      build_node(n);
      drop_after(n);
    }
  }

  void drop_after(NodeId id) {
    const Node& n = g_.node(id);
    std::vector<uint32_t> dead;
    if (!n.blocks.empty()) {
      SideTable<ValueId, bool> seen;
      for_each_use(g_, id, [&](ValueId v) {
        if (dies_at(v, id) && !seen.get(v)) seen[v] = true, dead.push_back(reg(v));
      });
    }
    for (ValueId v : n.outputs)
      if (!last_user_.get(v).valid() && !returned_.get(v)) dead.push_back(reg(v));
    if (!dead.empty()) emit({.code = OpCode::Drop}, {}, dead);
  }

  void build_node(NodeId id) {
    const Node& n = g_.node(id);
    if (n.outputs.empty() && (n.op == prim::Constant || n.op == prim::Uninitialized)) return; // left over in texts
    if (n.op == prim::Constant) return load_into(one_result(id), constant_of(g_, n));
    if (n.op == prim::If) return build_if(id);
    if (n.op == prim::Loop) return build_loop(id);
    if (n.op == prim::Uninitialized) return load_into(one_result(id), {});
    if (n.op == prim::isinstance) return build_isinstance(id);
    static const std::unordered_map<OpId, OpCode> own{
        {prim::ListConstruct, OpCode::List},
        {prim::TupleConstruct, OpCode::Tuple},
        {prim::DictConstruct, OpCode::Dict},
        {prim::ListUnpack, OpCode::Unpack},
        {prim::TupleUnpack, OpCode::Unpack},
        {prim::TupleIndex, OpCode::Element},
        {prim::RaiseException, OpCode::Raise},
        {prim::Print, OpCode::Print},
        {prim::unchecked_cast, OpCode::Move},
        {call::_unwrap_optional, OpCode::Unwrap},
        {prim::unchecked_unwrap_optional, OpCode::Move},
    };
    if (auto it = own.find(n.op); it != own.end()) {
      bool any = it->second == OpCode::Unpack || it->second == OpCode::Raise || it->second == OpCode::Print;
      std::vector<uint32_t> results = any ? results_of(id) : std::vector{one_result(id)};
      return (void)emit({.code = it->second}, results, args_of(id));
    }
    build_call(id);
  }

  void build_isinstance(NodeId id) {
    const Node& n = g_.node(id);
    const Arg* types = n.attribute("types");
    require_input(types && types->is<ArgList>(), "isinstance without types");
    std::vector<Type> list;
    ExprPool pool;
    for (const Arg& t : types->get<ArgList>()) {
      Lexer lexer(t.get<Word>().text);
      list.push_back(script::parse_script_type(g_.pool(), lexer));
    }
    c_->type_lists.push_back(std::move(list));
    emit({.code = OpCode::Check, .target = static_cast<uint32_t>(c_->type_lists.size() - 1)}, {one_result(id)}, args_of(id));
  }

  // ---- calls

  void problem(const Node& n, const std::string& why) {
    problems_ +=
        (problems_.empty() ? "" : "\n") + (n.origin && !n.origin->range.empty() ? n.origin->range + ": " : "") + n.op.name() + ": " + why;
  }

  void build_call(NodeId id) {
    const Node& n = g_.node(id);
    std::vector<Given> given;
    for (const Arg& a : n.args) given.push_back({g_.type(a.get<ValueId>())});
    std::string why;
    bool of_tensor = n.op == prim::abs && given.size() == 1 && given[0].type.is_any_tensor(); // the builtin is of numbers
    auto r = resolve_node(of_tensor ? call::abs : n.op, given, &why);
    if (!r) return problem(n, why);
    std::vector<uint32_t> have = args_of(id), args;
    for (size_t i = 0; i < r->args.size(); i++) args.push_back(passed(r->args[i], r->signature->args[i], have));
    if (r->signature->any_args) args = have;
    std::vector<uint32_t> results = results_of(id);
    if (results.empty()) results.resize(r->results.size(), UINT32_MAX); // nodes that are there for their effect
    for (uint32_t& result : results)
      if (result == UINT32_MAX) result = fresh();
    if (results.size() != r->results.size() && !r->signature->any_returns)
      return problem(n, fmt::format("it has {} results, the graph names {}", r->results.size(), results.size()));
    if (auto it = direct_ops.find(r->signature->name); r->builtin && it != direct_ops.end()) {
      emit({.code = it->second}, results, args);
    } else if (r->builtin) {
      c_->builtins.push_back({r->builtin, r->builtin->bind ? r->builtin->bind(g_, n) : nullptr});
      emit({.code = OpCode::Builtin, .target = static_cast<uint32_t>(c_->builtins.size() - 1)}, results, args);
    } else if (r->out) {
      uint32_t written = args.back(), made = fresh();
      args.pop_back();
      emit_tensor_op(*r->def, r->def->signature, false, {made}, args);
      Type tensor = Type::simple(TypeKind::Dynamic);
      Resolved copy = resolve(call::copy_, std::array{Given{tensor}, Given{tensor}, Given{Type::simple(TypeKind::Bool)}});
      emit_tensor_op(*copy.def, *copy.signature, true, results, {written, made | last_use, load(IValue(false))});
    } else emit_tensor_op(*r->def, *r->signature, r->in_place, results, args);
  }

  void emit_tensor_op(const OpDef& def, const Schema& signature, bool in_place, const std::vector<uint32_t>& results,
                      const std::vector<uint32_t>& args) {
    c_->tensor_ops.push_back(std::make_unique<TensorOp>(def, signature.name, signature, in_place));
    emit({.code = OpCode::Tensor, .target = static_cast<uint32_t>(c_->tensor_ops.size() - 1)}, results, args);
  }

  uint32_t passed(const Passed& p, const SchemaArg& schema, const std::vector<uint32_t>& have) {
    switch (p.from) {
    case Passed::From::Default: return load(default_of(schema));
    case Passed::From::List:
    case Passed::From::Repeat: {
      std::vector<uint32_t> items;
      for (size_t k = 0; k < p.count; k++)
        items.push_back((p.from == Passed::From::Repeat ? have[p.index] : have[p.index + k]) & ~last_use);
      uint32_t list = fresh();
      emit({.code = OpCode::List}, {list}, items);
      return list;
    }
    case Passed::From::Given: break;
    }
    if (p.convert.empty()) return have[p.index];
    uint32_t out = fresh();
    if (p.convert == "tuple") { // its elements, as a list
      c_->type_lists.push_back({});
      emit({.code = OpCode::List, .target = 1}, {out}, {have[p.index]});
      return out;
    }
    Given tensor{Type::simple(p.convert == call::device         ? TypeKind::String
                              : p.convert.ends_with("Implicit") ? TypeKind::Dynamic
                                                                : TypeKind::Number)};
    auto r = resolve_node(p.convert, std::span(&tensor, 1));
    require(r && r->builtin, "{} has no row", p.convert);
    c_->builtins.push_back({r->builtin});
    emit({.code = OpCode::Builtin, .target = static_cast<uint32_t>(c_->builtins.size() - 1)}, {out}, {have[p.index]});
    return out;
  }

  // ---- control

  // What a block returns goes to `to`; a value of the block that is returned once is moved.
  void move_returns(BlockId id, size_t first, const std::vector<uint32_t>& to) {
    const ArgList& returns = g_.block(id).returns;
    std::vector<uint32_t> from;
    for (size_t i = 0; i < to.size(); i++) from.push_back(reg(returns.at(first + i).get<ValueId>()));
    // A register that is written before it is read goes by way of another.
    for (size_t i = 0; i < to.size(); i++)
      for (size_t k = i + 1; k < to.size(); k++)
        if (from[k] == to[i] && from[i] != to[i]) {
          uint32_t spare = fresh();
          emit({.code = OpCode::Move}, {spare}, {from[k]});
          from[k] = spare;
        }
    for (size_t i = 0; i < to.size(); i++) {
      if (from[i] == to[i]) continue;
      ValueId v = returns[first + i].get<ValueId>();
      bool once =
          block_of_.get(v) == id && std::count(from.begin(), from.end(), from[i]) == 1 && std::count(to.begin(), to.end(), from[i]) == 0;
      emit({.code = OpCode::Move}, {to[i]}, {from[i] | (once ? last_use : 0)});
    }
  }

  void build_if(NodeId id) {
    const Node& n = g_.node(id);
    require_input(n.blocks.size() == 2 && n.args.size() == 1, "an If has a condition and two blocks");
    for (BlockId b : n.blocks)
      require_input(g_.block(b).returns.size() == n.outputs.size() && g_.block(b).params.empty(),
                    "a block of prim::If gives {} values, the node {}", g_.block(b).returns.size(), n.outputs.size());
    std::vector<uint32_t> results = results_of(id);
    size_t test = emit({.code = OpCode::JumpUnless}, {}, {reg(n.args[0].get<ValueId>())});
    build_block(n.blocks[0]);
    move_returns(n.blocks[0], 0, results);
    size_t over = emit({.code = OpCode::Jump}, {}, {});
    c_->instructions[test].target = here();
    build_block(n.blocks[1]);
    move_returns(n.blocks[1], 0, results);
    c_->instructions[over].target = here();
  }

  // Iterations are counted where there are so many at most or the body asks; the condition is looked at where it is not always true.
  void build_loop(NodeId id) {
    const Node& n = g_.node(id);
    require_input(n.blocks.size() == 1 && n.args.size() >= 2, "a Loop has a trip count, a condition and one block");
    const Block& body = g_.block(n.blocks[0]);
    size_t carried = n.outputs.size();
    require_input(n.args.size() == carried + 2 && body.params.size() == carried + 1 && body.returns.size() == carried + 1,
                  "the values that prim::Loop carries are not as many everywhere");
    uint32_t count = reg(n.args[0].get<ValueId>()), condition = fresh(), done = fresh();
    emit({.code = OpCode::Move}, {condition}, {reg(n.args[1].get<ValueId>())});
    load_into(done, IValue(int64_t{0}));
    std::vector<uint32_t> params;
    for (size_t i = 0; i < carried; i++) {
      params.push_back(reg(body.params[i + 1]));
      emit({.code = OpCode::Move}, {params[i]}, {reg(n.args[i + 2].get<ValueId>())});
    }
    size_t test = emit({.code = OpCode::LoopTest}, {}, {count, done, condition});
    emit({.code = OpCode::Move}, {reg(body.params[0])}, {done});
    uint32_t start = here();
    build_block(n.blocks[0]);
    ValueId again = body.returns[0].get<ValueId>();
    bool is_constant = g_.value(again).node.valid() && g_.node(g_.value(again).node).op == prim::Constant;
    std::vector<uint32_t> to = params;
    if (!is_constant) to.insert(to.begin(), condition);
    move_returns(n.blocks[0], is_constant ? 1 : 0, to);
    emit({.code = OpCode::Again, .target = start}, {done, reg(body.params[0])}, {count, is_constant ? reg(again) : condition});
    c_->instructions[test].target = here();
    for (size_t i = 0; i < carried; i++) emit({.code = OpCode::Move}, {reg(n.outputs[i])}, {params[i] | last_use});
  }

  const Graph& g_;
  std::shared_ptr<Code> c_ = std::make_shared<Code>();
  SideTable<ValueId, uint32_t> registers_{UINT32_MAX};
  SideTable<ValueId, BlockId> block_of_;
  SideTable<ValueId, NodeId> last_user_;
  SideTable<ValueId, bool> returned_;
  std::shared_ptr<const Origin> origin_;
  std::string problems_;
};

} // namespace

std::shared_ptr<const Code> build_code(const Graph& graph) { return CodeBuilder(graph).run(); }

} // namespace tenon::executor
