// Where the nodes and edges of an explanation's graph lie: layers of longest paths, each ordered by barycentres of its neighbours.
#pragma once
#include <vector>

#include "tenon/explain.h"

namespace tenon {

struct Layout {
  static constexpr double node_width = 190, node_height = 44;
  struct Point {
    double x, y;
  };
  /// A step, by its index; what control flow runs is in its node. Behind the steps inputs (-1 - buffer) and the result (the number of
  /// steps).
  struct Node {
    int id;
    double x, y; // of its upper left corner
  };
  /// From what wrote a buffer to what reads it.
  struct Edge {
    int from, to; // ids of nodes
    int value;    // the buffer
    std::vector<Point> points;
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  double width = 0, height = 0;
};

Layout layout_of(const Explanation& explanation);

} // namespace tenon
