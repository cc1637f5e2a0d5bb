// Layers, order in them, places. Edges over several layers go through points of their own in each, which are ordered and placed as nodes
// are.
#include "pages/layout.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tenon {

namespace {

constexpr double gap = 26, layer_height = 92, point_width = 14;
// Edges that are longer are drawn as they come: nothing is gained by making way for them.
constexpr int longest_routed = 60;

struct Vertex {
  int id = 0;
  bool is_point = false; // of a long edge
  int layer = 0;
  double at = 0; // in the order of the layer; then the middle
  std::vector<int> above = {}, below = {};
  double width() const { return is_point ? point_width : Layout::node_width; }
};

struct Link {
  int from, to, value; // vertices; the buffer
  std::vector<int> points = {};
};

class Drawing {
public:
  explicit Drawing(const Explanation& e) : e_(e) {}

  Layout run() {
    add_steps();
    set_layers();
    route();
    fill_layers();
    for (int i = 0; i < 6; i++) order(i % 2 == 0);
    place();
    return result();
  }

private:
  int add(int id) {
    vertices_.push_back({.id = id});
    return static_cast<int>(vertices_.size()) - 1;
  }
  void link(int from, int to, int value) {
    if (from == to || !linked_.emplace(std::pair(from, to), value).second) return;
    links_.push_back({from, to, value, {}});
  }

  // What wrote a buffer last: of a buffer that is written in parts, all that wrote one.
  void add_steps() {
    using Place = ExplainedBuffer::Place;
    std::map<int, std::vector<int>> writers;
    auto read = [&](int buffer, int vertex) {
      std::vector<int>& from = writers[buffer];
      Place place = e_.buffers[static_cast<size_t>(buffer)].place;
      if (from.empty() && place == Place::Input) from.push_back(add(-1 - buffer));
      for (int w : from) link(w, vertex, buffer);
    };
    for (size_t i = 0; i < e_.steps.size(); i++) {
      const ExplainedStep& s = e_.steps[i];
      if (s.owner >= 0) continue;
      int v = add(static_cast<int>(i));
      for (int b : s.reads) read(b, v);
      for (int b : s.writes) {
        std::vector<int>& all = writers[b];
        if (std::find(s.reads.begin(), s.reads.end(), b) != s.reads.end()) all.clear();
        all.push_back(v);
      }
    }
    int result = add(static_cast<int>(e_.steps.size()));
    for (size_t b = 0; b < e_.buffers.size(); b++)
      if (e_.buffers[b].place == Place::Output) read(static_cast<int>(b), result);
  }

  // Longest paths from what has nothing before it; that, in turn, comes just before what needs it. Steps run in the order of their
  // indices, so links go from left to right, but for those of inputs.
  void set_layers() {
    std::vector<std::vector<int>> into(vertices_.size()), out(vertices_.size());
    for (const Link& l : links_) into[static_cast<size_t>(l.to)].push_back(l.from), out[static_cast<size_t>(l.from)].push_back(l.to);
    for (size_t v = 0; v < vertices_.size(); v++)
      for (int u : into[v]) vertices_[v].layer = std::max(vertices_[v].layer, at(u).layer + 1);
    for (size_t v = vertices_.size(); v-- > 0;) {
      if (!into[v].empty() || out[v].empty()) continue;
      int first = at(out[v][0]).layer;
      for (int u : out[v]) first = std::min(first, at(u).layer);
      vertices_[v].layer = std::max(first - 1, 0);
    }
  }

  void route() {
    for (Link& l : links_) {
      int from = at(l.from).layer, to = at(l.to).layer, last = l.from;
      if (to - from > longest_routed) continue;
      for (int layer = from + 1; layer < to; layer++) {
        int p = add(0);
        at(p).is_point = true, at(p).layer = layer;
        l.points.push_back(p);
        join(last, p);
        last = p;
      }
      join(last, l.to);
    }
  }
  void join(int above, int below) { at(above).below.push_back(below), at(below).above.push_back(above); }

  void fill_layers() {
    for (size_t v = 0; v < vertices_.size(); v++) {
      size_t layer = static_cast<size_t>(vertices_[v].layer);
      if (layers_.size() <= layer) layers_.resize(layer + 1);
      vertices_[v].at = static_cast<double>(layers_[layer].size());
      layers_[layer].push_back(static_cast<int>(v));
    }
  }

  double middle_of(const std::vector<int>& list, double otherwise) const {
    if (list.empty()) return otherwise;
    double sum = 0;
    for (int v : list) sum += vertices_[static_cast<size_t>(v)].at;
    return sum / static_cast<double>(list.size());
  }

  void order(bool down) {
    for (size_t k = 0; k < layers_.size(); k++) {
      std::vector<int>& layer = layers_[down ? k : layers_.size() - 1 - k];
      std::map<int, double> wanted;
      for (int v : layer) wanted[v] = middle_of(down ? at(v).above : at(v).below, at(v).at);
      std::stable_sort(layer.begin(), layer.end(), [&](int a, int b) { return wanted[a] < wanted[b]; });
      for (size_t i = 0; i < layer.size(); i++) at(layer[i]).at = static_cast<double>(i);
    }
  }

  // Each layer as near to what it is joined with as the widths let it.
  void place() {
    for (auto& layer : layers_) {
      double x = 0;
      for (int v : layer) x += at(v).width() + gap;
      x = -x / 2;
      for (int v : layer) at(v).at = x + at(v).width() / 2, x += at(v).width() + gap;
    }
    for (int i = 0; i < 24; i++)
      for (size_t k = 0; k < layers_.size(); k++) settle(layers_[i % 2 == 0 ? k : layers_.size() - 1 - k]);
  }
  void settle(const std::vector<int>& layer) {
    std::vector<double> wanted, left, right(layer.size());
    for (int v : layer) {
      std::vector<int> near = at(v).above;
      near.insert(near.end(), at(v).below.begin(), at(v).below.end());
      wanted.push_back(middle_of(near, at(v).at));
    }
    auto apart = [&](size_t i) { return (at(layer[i - 1]).width() + at(layer[i]).width()) / 2 + gap; };
    for (size_t i = 0; i < layer.size(); i++) left.push_back(i == 0 ? wanted[0] : std::max(wanted[i], left[i - 1] + apart(i)));
    for (size_t i = layer.size(); i-- > 0;) right[i] = i + 1 == layer.size() ? wanted[i] : std::min(wanted[i], right[i + 1] - apart(i + 1));
    for (size_t i = 0; i < layer.size(); i++) at(layer[i]).at = (left[i] + right[i]) / 2; // both keep apart, so their mean does
  }

  Layout result() {
    Layout out;
    double least = 0, most = 0;
    for (const Vertex& v : vertices_) least = std::min(least, v.at - v.width() / 2), most = std::max(most, v.at + v.width() / 2);
    auto x = [&](const Vertex& v) { return v.at - least + gap; };
    auto y = [](const Vertex& v) { return gap + v.layer * layer_height; };
    for (const Vertex& v : vertices_)
      if (!v.is_point) out.nodes.push_back({v.id, x(v) - Layout::node_width / 2, y(v)});
    for (const Link& l : links_) {
      Layout::Edge e{at(l.from).id, at(l.to).id, l.value, {{x(at(l.from)), y(at(l.from)) + Layout::node_height}}};
      for (int p : l.points) e.points.push_back({x(at(p)), y(at(p)) + Layout::node_height / 2});
      e.points.push_back({x(at(l.to)), y(at(l.to))});
      out.edges.push_back(std::move(e));
    }
    out.width = most - least + 2 * gap;
    out.height = static_cast<double>(layers_.size()) * layer_height + gap;
    return out;
  }

  Vertex& at(int v) { return vertices_[static_cast<size_t>(v)]; }

  const Explanation& e_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::map<std::pair<int, int>, int> linked_;
  std::vector<std::vector<int>> layers_;
};

} // namespace

Layout layout_of(const Explanation& explanation) { return Drawing(explanation).run(); }

} // namespace tenon
