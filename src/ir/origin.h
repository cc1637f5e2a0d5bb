// Where a node comes from: what torch.export recorded of the Python code behind it. Kept as the texts that files have, which are read when
// somebody asks: most programs never do.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tenon/error.h"

namespace tenon {

struct Origin {
  std::string stack_trace = {};     ///< frames of Python, outermost first: `File "m.py", line 7, in forward`, each with its source below
  std::string module_stack = {};    ///< torch's nn_module_stack, outermost first: "key,layers.0,torch.nn.modules.linear.Linear;..."
  std::string source_fn_stack = {}; ///< the function or leaf module that was called: "fn_name,torch.nn.modules.linear.Linear;..."
  std::string torch_fn = {};        ///< torch's function: "linear_1;builtin_function_or_method.linear"
  std::string range = {};           ///< TorchScript's: "m.py:7:4", the file, the line, the column from 0 on
};

/// What is recorded, under torch's names: ("stack_trace", text) and the like; those that are not there left out.
std::vector<std::pair<std::string, std::string>> metadata_of(const Origin& origin);
/// The innermost frame that is the user's own, outside of torch: `File "m.py", line 7, in forward`. torch's innermost where there is no
/// other; empty where no frame is recorded.
std::string_view user_frame(const Origin& origin);
/// The path of the innermost module, as named_modules() has it: "encoder.layer.3.attention". Empty for the program's own module, and
/// where none is recorded.
std::string module_path(const Origin& origin);
/// Both as one text: `layers.0, File "m.py", line 7, in forward`. Empty where neither is known.
std::string to_string(const Origin& origin);
/// The same of several nodes, each text once; of more than four the first four, and how many there are besides.
std::string to_string(const std::vector<const Origin*>& origins);

/// The error, saying which node it is about, "%relu", and where that comes from, unless it does already. `origin` may be null.
Error at_node(const Error& error, std::string_view node, const Origin* origin);
/// Calls f; what it says of given graphs names the node then.
template <class F> auto within_node(std::string_view node, const Origin* origin, const F& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw at_node(e, node, origin);
  }
}

} // namespace tenon
