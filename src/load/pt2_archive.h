// Which file of an archive is what, and the weights in it. Three forms are read:
//   models/M.json, data/weights/M_weights_config.json and raw storages beside it   torch 2.8 and later
//   the same with data/weights/M.pt, a torch.save'd dict, in place of the config   written by some in between
//   serialized_exported_program.json, serialized_state_dict.pt and the like        torch 2.7 and before
#pragma once
#include <string_view>

#include "load/archive.h"
#include "load/json.h"
#include "load/load.h"
#include "load/pt2_subclass.h"

namespace tenon {

/// Where weights or constants are: described by `config`, with storages in `folder`; or, without it, in `pickle`.
struct PayloadFiles {
  std::string config, folder, pickle;
};

struct Pt2Files {
  std::string program, example_inputs;
  PayloadFiles weights, constants;
};

/// The names of the programs in the archive; that of an old one is "model". BadInput, Unsupported where it holds none.
std::vector<std::string> methods_of(const Archive& archive);
/// The files of one of them; `method` may be empty where there is one only.
Pt2Files find_files(const Archive& archive, const std::string& method);
/// Parses a JSON file, or a text that errors call `name`. Infinity and NaN may be bare, as Python's json writes them by default.
json::Element parse_json(simdjson::dom::parser& parser, const Archive& archive, const std::string& name);
json::Element parse_json(simdjson::dom::parser& parser, std::string_view text, const std::string& name);
/// Adds the tensors of `files` to the program's weights, and those of tensor subclasses, which are pickled, to `subclasses`.
void read_payloads(const Archive& archive, const PayloadFiles& files, LoadedProgram& program, Subclasses& subclasses);
/// Where the archive has example inputs: remembers them. The program's mapping keeps them alive.
void keep_example_inputs(const Archive& archive, const std::string& name, LoadedProgram& program);

} // namespace tenon
