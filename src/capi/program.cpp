// Programs in the C API.
#include <memory>

#include "capi/handles.h"

namespace tenon::capi {

Args::Args(std::vector<ArgInfo> args) : infos(std::move(args)) {
  for (const ArgInfo& info : infos) {
    auto& texts = sizes.emplace_back();
    for (const std::string& s : info.sizes) texts.push_back(s.c_str());
  }
}

void Args::get(size_t i, tenon_arg_info* out) const {
  if (i >= infos.size()) refuse("there are " + std::to_string(infos.size()) + ", none has the number " + std::to_string(i));
  const ArgInfo& a = infos[i];
  write_struct(out,
               {.struct_size = 0,
                .dtype = static_cast<int32_t>(a.dtype),
                .rank = static_cast<int32_t>(a.sizes.size()),
                .is_number = a.is_number,
                .name = a.name.c_str(),
                .sizes = sizes[i].data()},
               "out");
}

// Weights that the caller hands over: let go by his deleter, but only once they were taken.
struct GivenTensor {
  DLManagedTensorVersioned* given;
  bool is_taken = false;
  ~GivenTensor() {
    if (is_taken && given->deleter) given->deleter(given);
  }
};

static Program with_weights(const Program& program, const char* const* names, DLManagedTensorVersioned* const* tensors, size_t count) {
  std::vector<NamedTensor> weights;
  std::vector<std::shared_ptr<GivenTensor>> given;
  for (size_t i = 0; i < count; i++) {
    std::string name = need(need(names, "names")[i], "a name");
    DLManagedTensorVersioned* tensor = need(need(tensors, "tensors")[i], name.c_str());
    if (tensor->version.major != DLPACK_MAJOR_VERSION)
      refuse(name + " is of version " + std::to_string(tensor->version.major) + " of DLPack");
    given.push_back(std::make_shared<GivenTensor>(tensor));
    weights.push_back({name, tensor_of(&tensor->dl_tensor, name, given.back())});
  }
  Program changed = program.with_state_dict(weights).value();
  for (auto& g : given) g->is_taken = true;
  return changed;
}

} // namespace tenon::capi

using namespace tenon;
using namespace tenon::capi;

int32_t tenon_program_load(const char* path, const char* method, tenon_program** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out"), need(path, "path");
    *out = new tenon_program((method ? Program::load(path, method) : Program::load(path)).value());
  });
}
int32_t tenon_program_load_bytes(const void* bytes, size_t size, const char* name, tenon_program** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out"), need(bytes, "bytes");
    *out = new tenon_program(Program::load({static_cast<const std::byte*>(bytes), size}, name ? name : "program").value());
  });
}
int32_t tenon_program_methods(const char* path, char** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    std::string names;
    for (const std::string& name : Program::methods(need(path, "path")).value()) names += name + "\n";
    *out = text_of(names);
  });
}
void tenon_program_free(tenon_program* program) { delete program; }

size_t tenon_program_num_inputs(const tenon_program* program) { return program ? program->inputs.infos.size() : 0; }
size_t tenon_program_num_outputs(const tenon_program* program) { return program ? program->outputs.infos.size() : 0; }
int32_t tenon_program_input(const tenon_program* program, size_t i, tenon_arg_info* out, tenon_error** error) {
  return guarded(error, [&] { need(program, "program")->inputs.get(i, out); });
}
int32_t tenon_program_output(const tenon_program* program, size_t i, tenon_arg_info* out, tenon_error** error) {
  return guarded(error, [&] { need(program, "program")->outputs.get(i, out); });
}
int32_t tenon_program_structure(const tenon_program* program, char** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    const Program& p = need(program, "program")->program;
    *out = text_of(p.in_spec().to_string() + "\n" + p.out_spec().to_string() + "\n");
  });
}

int32_t tenon_program_example_inputs(const tenon_program* program, tenon_tensors** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    auto examples = need(program, "program")->program.example_inputs().value();
    auto list = std::make_unique<tenon_tensors>();
    for (size_t i = 0; i < examples.size(); i++)
      list->tensors.push_back({i < program->inputs.infos.size() ? program->inputs.infos[i].name : "", examples[i]});
    *out = list.release();
  });
}
int32_t tenon_program_weights(const tenon_program* program, tenon_tensors** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    *out = new tenon_tensors{need(program, "program")->program.state_dict()};
  });
}
int32_t tenon_program_with_weights(const tenon_program* program, const char* const* names, DLManagedTensorVersioned* const* tensors,
                                   size_t count, tenon_program** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    // The handle comes first: once the tensors are taken nothing may fail.
    auto made = std::make_unique<tenon_program>(need(program, "program")->program);
    made->program = with_weights(program->program, names, tensors, count);
    *out = made.release();
  });
}
int32_t tenon_program_dump(const tenon_program* program, const char* stage, const tenon_options* options, char** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    *out = text_of(need(program, "program")->program.dump(need(stage, "stage"), options_of(options)).value());
  });
}

int32_t tenon_program_compile(const tenon_program* program, const tenon_options* options, tenon_executable** out, tenon_error** error) {
  return guarded(error, [&] {
    need(out, "out");
    Executable made = need(program, "program")->program.compile(options_of(options)).value();
    *out = new tenon_executable{std::move(made), program->inputs, program->outputs};
  });
}
int32_t tenon_program_save_compiled(const tenon_program* program, const char* path, const tenon_options* options, tenon_error** error) {
  return guarded(error, [&] { need(program, "program")->program.save_compiled(need(path, "path"), options_of(options)).check(); });
}
