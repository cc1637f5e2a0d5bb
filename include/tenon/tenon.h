// The whole public API of tenon.
#pragma once
#include "tenon/backend.h"      // IWYU pragma: export
#include "tenon/custom_op.h"    // IWYU pragma: export
#include "tenon/edge.h"         // IWYU pragma: export
#include "tenon/error.h"        // IWYU pragma: export
#include "tenon/explain.h"      // IWYU pragma: export
#include "tenon/graph.h"        // IWYU pragma: export
#include "tenon/ivalue.h"       // IWYU pragma: export
#include "tenon/operator.h"     // IWYU pragma: export
#include "tenon/option_names.h" // IWYU pragma: export
#include "tenon/options.h"      // IWYU pragma: export
#include "tenon/pass.h"         // IWYU pragma: export
#include "tenon/program.h"      // IWYU pragma: export
#include "tenon/progress.h"     // IWYU pragma: export
#include "tenon/script.h"       // IWYU pragma: export
#include "tenon/signature.h"    // IWYU pragma: export
#include "tenon/tensor.h"       // IWYU pragma: export
#include "tenon/threads.h"      // IWYU pragma: export
#include "tenon/timeline.h"     // IWYU pragma: export
#include "tenon/trace.h"        // IWYU pragma: export
#include "tenon/tree.h"         // IWYU pragma: export
#include "tenon/type.h"         // IWYU pragma: export
