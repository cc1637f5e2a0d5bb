#include "codegen/llvm/linker.h"

#include <algorithm>

#include <llvm/ExecutionEngine/JITLink/ELF_x86_64.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>

#include "base/check.h"
#include "codegen/llvm/c_functions.h"

namespace tenon {

namespace jitlink = llvm::jitlink;
namespace orc = llvm::orc;

// ---- memory

uint8_t* GroupPages::take(size_t bytes, size_t align) {
  constexpr size_t usual = 64 << 10; // address space; pages that are not used are given back
  std::lock_guard lock(mutex_);
  auto place = [&] { return pieces_.empty() ? 0 : (pieces_.back().used + align - 1) / align * align; };
  if (pieces_.empty() || place() + bytes > pieces_.back().pages.size()) {
    CodePages pages(std::max(bytes, usual));
    if (!pages.data()) return nullptr;
    pieces_.push_back({std::move(pages), 0});
  }
  size_t at = place();
  pieces_.back().used = at + bytes;
  return pieces_.back().pages.data() + at;
}

bool GroupPages::seal() {
  std::lock_guard lock(mutex_);
  for (Piece& p : pieces_) {
    if (!p.pages.seal(p.used)) return false;
    p.pages.trim();
  }
  return true;
}

size_t GroupPages::bytes() const {
  std::lock_guard lock(mutex_);
  size_t n = 0;
  for (const Piece& p : pieces_) n += p.pages.size();
  return n;
}

namespace {

using Allocations = jitlink::JITLinkMemoryManager;

llvm::Error failure(const char* what) { return llvm::make_error<llvm::StringError>(what, llvm::inconvertibleErrorCode()); }

// The memory of one object, linked where it will run. An allocation that has been finalized is known by the address of its pages' owner.
class GroupAllocation final : public Allocations::InFlightAlloc {
public:
  explicit GroupAllocation(std::shared_ptr<GroupPages> pages) : pages_(std::move(pages)) {}
  void abandon(OnAbandonedFunction done) override { done(llvm::Error::success()); }
  void finalize(OnFinalizedFunction done) override {
    auto owner = std::make_unique<std::shared_ptr<GroupPages>>(std::move(pages_));
    done(Allocations::FinalizedAlloc(orc::ExecutorAddr::fromPtr(owner.release())));
  }

private:
  std::shared_ptr<GroupPages> pages_;
};

// Places the graph's segments one behind the other.
llvm::Error lay_out(jitlink::LinkGraph& graph, GroupPages& pages) {
  constexpr size_t cache_line = 64;
  using llvm::BitmaskEnumDetail::operator&;
  jitlink::BasicLayout layout(graph);
  size_t bytes = 0, align = cache_line;
  auto next = [&](const jitlink::BasicLayout::Segment& s) {
    size_t a = std::max<size_t>(s.Alignment.value(), cache_line);
    align = std::max(align, a);
    size_t at = (bytes + a - 1) / a * a;
    bytes = at + s.ContentSize + s.ZeroFillSize;
    return at;
  };
  for (auto& [group, segment] : layout.segments()) {
    if ((group.getMemProt() & orc::MemProt::Write) != orc::MemProt::None) return failure("generated code has writable data");
    next(segment);
  }
  if (!graph.allocActions().empty()) return failure("generated code has actions to run when it is loaded");
  uint8_t* memory = pages.take(bytes, align);
  if (!memory) return failure("the system refuses memory for generated code");
  bytes = 0;
  for (auto& [group, segment] : layout.segments()) {
    uint8_t* at = memory + next(segment);
    segment.Addr = orc::ExecutorAddr::fromPtr(at);
    segment.WorkingMem = reinterpret_cast<char*>(at);
  }
  return layout.apply();
}

} // namespace

void GroupMemory::place(const jitlink::LinkGraph* graph, std::shared_ptr<GroupPages> pages) {
  std::lock_guard lock(mutex_);
  if (pages) places_[graph] = std::move(pages);
  else places_.erase(graph);
}

void GroupMemory::allocate(const jitlink::JITLinkDylib*, jitlink::LinkGraph& graph, OnAllocatedFunction done) {
  std::shared_ptr<GroupPages> pages;
  {
    std::lock_guard lock(mutex_);
    if (auto found = places_.extract(&graph)) pages = std::move(found.mapped());
  }
  if (!pages) return done(failure("an object of no group"));
  if (llvm::Error error = lay_out(graph, *pages)) return done(std::move(error));
  done(std::make_unique<GroupAllocation>(std::move(pages)));
}

void GroupMemory::deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction done) {
  for (FinalizedAlloc& a : allocations) delete a.release().toPtr<std::shared_ptr<GroupPages>*>();
  done(llvm::Error::success());
}

// ---- linking

namespace {

const llvm::JITSymbolFlags callable = llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable;

// An object file that gives one function. The graph points into its bytes; all of linking happens in materialize().
class ObjectUnit final : public orc::MaterializationUnit {
public:
  ObjectUnit(std::vector<char> object, std::unique_ptr<jitlink::LinkGraph> graph, orc::SymbolStringPtr function,
             orc::ObjectLinkingLayer& layer, GroupMemory& memory, std::shared_ptr<GroupPages> pages)
      : MaterializationUnit({{{std::move(function), callable}}, nullptr}), object_(std::move(object)), graph_(std::move(graph)),
        layer_(layer), memory_(memory), pages_(std::move(pages)) {}
  llvm::StringRef getName() const override { return "function"; }
  void materialize(std::unique_ptr<orc::MaterializationResponsibility> r) override {
    const jitlink::LinkGraph* graph = graph_.get();
    memory_.place(graph, pages_);
    layer_.emit(std::move(r), std::move(graph_));
    memory_.place(graph, nullptr);
  }

private:
  void discard(const orc::JITDylib&, const orc::SymbolStringPtr&) override {}

  std::vector<char> object_;
  std::unique_ptr<jitlink::LinkGraph> graph_;
  orc::ObjectLinkingLayer& layer_;
  GroupMemory& memory_;
  std::shared_ptr<GroupPages> pages_;
};

// The graph's function `name`, from now on the only symbol that others see.
jitlink::Symbol* only_export(jitlink::LinkGraph& graph, const std::string& name) {
  jitlink::Symbol* found = nullptr;
  for (jitlink::Symbol* s : graph.defined_symbols()) {
    if (s->getScope() != jitlink::Scope::Default) continue;
    if (!found && s->getName() == name) found = s;
    else s->setScope(jitlink::Scope::Local);
  }
  return found;
}

} // namespace

Linker::Linker(std::span<const Symbol> symbols)
    : session_(std::make_unique<orc::UnsupportedExecutorProcessControl>(nullptr, std::make_unique<orc::InPlaceTaskDispatcher>(),
                                                                        "x86_64-unknown-linux-gnu", 4096)),
      layer_(session_, memory_), c_functions_(session_.createBareJITDylib("c")), functions_(session_.createBareJITDylib("kernels")) {
  session_.setErrorReporter([this](llvm::Error error) {
    std::string text = llvm::toString(std::move(error));
    std::lock_guard lock(mutex_);
    reported_ += (reported_.empty() ? "" : "; ") + text;
  });
  orc::SymbolMap map;
  for (std::span<const Symbol> list : {symbols, c_functions()})
    for (const Symbol& s : list) {
      orc::SymbolStringPtr name = session_.intern(std::string(s.name));
      map.try_emplace(name, orc::ExecutorSymbolDef(orc::ExecutorAddr::fromPtr(s.address), callable));
      known_.insert(*name); // the session keeps the text
    }
  if (llvm::Error error = c_functions_.define(orc::absoluteSymbols(std::move(map)))) fail(std::move(error));
  functions_.addToLinkOrder(c_functions_);
}

Linker::~Linker() { llvm::consumeError(session_.endSession()); }

void Linker::fail(llvm::Error error) {
  std::string text = llvm::toString(std::move(error));
  std::lock_guard lock(mutex_);
  if (!reported_.empty()) text += ": " + std::exchange(reported_, {});
  internal_error("LLVM cannot link generated code: {}", text);
}

LinkedGroup::LinkedGroup(std::shared_ptr<Linker> linker)
    : linker_(std::move(linker)), tracker_(linker_->functions_.createResourceTracker()) {}

LinkedGroup::~LinkedGroup() {
  llvm::consumeError(tracker_->remove());
  linker_->session_.getSymbolStringPool()->clearDeadEntries();
  linker_->bytes_ -= counted_;
}

void* LinkedGroup::add(std::vector<char> object, const std::string& name) {
  Linker& l = *linker_;
  auto graph = jitlink::createLinkGraphFromELFObject_x86_64(llvm::MemoryBufferRef({object.data(), object.size()}, name));
  if (!graph) l.fail(graph.takeError());
  jitlink::Symbol* symbol = only_export(**graph, name);
  require(symbol, "the module has no function '{}'", name);
  for (jitlink::Symbol* s : (*graph)->external_symbols())
    require(l.known_.contains(s->getName()), "generated code calls '{}', which is not in the runtime table", std::string(s->getName()));
  size_t bytes = symbol->getSize();

  orc::SymbolStringPtr function = l.session_.intern(fmt::format("{}.{}", name, l.count_++)); // the same may be linked twice
  symbol->setName(*function);
  auto unit = std::make_unique<ObjectUnit>(std::move(object), std::move(*graph), function, l.layer_, l.memory_, pages_);
  if (llvm::Error error = l.functions_.define(std::move(unit), tracker_)) l.fail(std::move(error));
  llvm::Expected<orc::ExecutorSymbolDef> found = l.session_.lookup({&l.functions_}, function);
  if (!found) l.fail(found.takeError());
  void* address = found->getAddress().toPtr<void*>();
  if (CodeNames::wanted()) {
    std::lock_guard lock(mutex_);
    functions_.push_back({name, address, bytes});
  }
  return address;
}

void LinkedGroup::seal() {
  require(pages_->seal(), "the system refuses to make generated code executable");
  counted_ = pages_->bytes();
  linker_->bytes_ += counted_;
  names_ = CodeNames(functions_);
}

} // namespace tenon
