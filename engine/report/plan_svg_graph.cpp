// The graph of a plan (see plan_svg.h). Every row of the view is a frame with its groups in layers; frames stand under each other in
// columns, as text in a newspaper. What flows from block to block is one line, as
// everything passes there.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/report/plan_svg.h"
#include "engine/report/plan_view.h"
#include "engine/report/plan_words.h"

namespace eng {
namespace {

constexpr double kBoxWidth = 122, kBoxHeight = 32, kGapX = 10, kGapY = 24, kPad = 12, kTitle = 22, kFrameGap = 26, kColumnGap = 40, kHead = 50;
constexpr double kPage = 1230;  // as many columns as fit into this width

struct Frame {
  const ViewRow* row = nullptr;
  std::map<int, std::pair<double, double>> at;  // upper left corner of a group's box, inside the frame
  double width = 0, height = 0, x = 0, y = 0;
  double centre() const { return x + width / 2; }
};

class Drawing {
 public:
  Drawing(const Plan& plan, const Graph& step) : plan_(plan), view_(view_of(plan, step)) {
    for (const ViewRow& row : view_.rows) frames_.push_back(arranged(row));
    for (const ViewGroup& g : view_.groups) longest_ = std::max(longest_, g.total());
  }

  std::string draw() {
    place();
    std::string t = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n", width_, height_);
    t += "<text x=\"0\" y=\"14\" font-size=\"14\" font-weight=\"bold\">graph</text>\n";
    double x = 70;
    for (int d = 0; d < plan_.device_count(); ++d) {
      const std::string words = device_text(plan_, d);
      t += fmt::format("<rect x=\"{:.0f}\" y=\"4\" width=\"14\" height=\"12\" fill=\"{}\"/><text x=\"{:.0f}\" y=\"14\">{}</text>\n", x, device_colour(d), x + 19, escaped_xml(words));
      x += 50 + 6.5 * static_cast<double>(words.size());
    }
    t += "<text x=\"0\" y=\"32\" fill=\"#555\">times: forward, backward and update of a group; dark bar: its part of the longest; red: crosses to another device</text>\n";
    for (size_t i = 0; i + 1 < frames_.size(); ++i) t += between(frames_[i], frames_[i + 1]);
    for (const Frame& f : frames_) t += drawn(f);
    return t + "</svg>\n";
  }

 private:
  const std::vector<int>& groups_of(const ViewRow& row) const { return view_.blocks[static_cast<size_t>(row.first)].groups; }
  const ViewGroup& group(int g) const { return view_.groups[static_cast<size_t>(g)]; }

  // Layers by the longest way from the block's entry; within a layer by the mean place of what a group reads.
  Frame arranged(const ViewRow& row) const {
    Frame f;
    f.row = &row;
    std::map<int, int> layer;
    std::vector<std::vector<int>> layers;
    for (int g : groups_of(row)) {
      int deepest = 0;
      for (int from : group(g).inputs)
        if (const auto it = layer.find(from); it != layer.end()) deepest = std::max(deepest, it->second + 1);
      layer[g] = deepest;
      if (layers.size() <= static_cast<size_t>(deepest)) layers.resize(static_cast<size_t>(deepest) + 1);
      layers[static_cast<size_t>(deepest)].push_back(g);
    }
    size_t widest = 1;
    for (const auto& l : layers) widest = std::max(widest, l.size());
    f.width = 2 * kPad + static_cast<double>(widest) * (kBoxWidth + kGapX) - kGapX;
    f.height = kTitle + 2 * kPad + static_cast<double>(layers.size()) * (kBoxHeight + kGapY) - kGapY;
    f.width = std::max(f.width, 2 * kPad + 6.3 * static_cast<double>(title(row).size()));
    for (size_t l = 0; l < layers.size(); ++l) {
      auto& line = layers[l];
      const auto pull = [&](int g) {
        double sum = 0;
        int count = 0;
        for (int from : group(g).inputs)
          if (const auto it = f.at.find(from); it != f.at.end()) sum += it->second.first, ++count;
        return count ? sum / count : f.width / 2;
      };
      std::stable_sort(line.begin(), line.end(), [&](int a, int b) { return pull(a) < pull(b); });
      const double total = static_cast<double>(line.size()) * (kBoxWidth + kGapX) - kGapX;
      for (size_t i = 0; i < line.size(); ++i)
        f.at[line[i]] = {(f.width - total) / 2 + static_cast<double>(i) * (kBoxWidth + kGapX), kTitle + kPad + static_cast<double>(l) * (kBoxHeight + kGapY)};
    }
    return f;
  }

  static std::string title(const ViewRow& row) { return shortened(row.name, 60) + (row.count > 1 ? fmt::format("  x{}", row.count) : ""); }

  // Columns of at most `limit` height; gives the size of the whole.
  std::pair<double, double> columns(double limit) {
    double x = 8, y = kHead, column = 0, lowest = 0;
    size_t first = 0;
    const auto close = [&](size_t end) {
      for (size_t i = first; i < end; ++i) frames_[i].x = x + (column - frames_[i].width) / 2;
      x += column + kColumnGap, column = 0, y = kHead, first = end;
    };
    for (size_t i = 0; i < frames_.size(); ++i) {
      if (y > kHead && y + frames_[i].height > limit) close(i);
      frames_[i].y = y;
      y += frames_[i].height + kFrameGap;
      column = std::max(column, frames_[i].width);
      lowest = std::max(lowest, y);
    }
    close(frames_.size());
    return {x - kColumnGap + 8, lowest};
  }

  void place() {
    double tallest = 0, all = kHead;
    for (const Frame& f : frames_) tallest = std::max(tallest, f.height), all += f.height + kFrameGap;
    double chosen = all + 1, lowest = columns(chosen).second;
    for (int n = 2; n <= 8; ++n) {
      for (double share : {1.02, 1.1, 1.2, 1.3}) {  // the columns do not come out even
        const double limit = std::max(kHead + tallest, all / n * share);
        const auto [w, h] = columns(limit);
        if (w <= kPage && h < lowest) lowest = h, chosen = limit;
      }
    }
    std::tie(width_, height_) = columns(chosen);
    width_ = std::max(width_, 760.0);
  }

  // From one frame to the next: straight down, or over the top of the next column.
  std::string between(const Frame& a, const Frame& b) const {
    const int from = groups_of(*a.row).back();
    const bool crosses = std::any_of(groups_of(*b.row).begin(), groups_of(*b.row).end(), [&](int g) {
      const auto& in = group(g).inputs;
      return group(g).device != group(from).device && std::any_of(in.begin(), in.end(), [&](int i) { return i < groups_of(*b.row)[0]; });
    });
    std::string path;
    const double bottom = a.y + a.height;
    if (b.y > a.y) path = fmt::format("M{:.1f} {:.1f} L{:.1f} {:.1f}", a.centre(), bottom, b.centre(), b.y);
    else {
      double right = 0;  // of a's column
      for (const Frame& f : frames_)
        if (f.x < b.x && f.x + f.width < b.centre()) right = std::max(right, f.x + f.width);
      double left = b.x;
      for (const Frame& f : frames_)
        if (f.x + f.width / 2 > right) left = std::min(left, std::max(f.x, right));
      const double gap = (right + left) / 2;
      path = fmt::format("M{0:.1f} {1:.1f} L{0:.1f} {2:.1f} L{3:.1f} {2:.1f} L{3:.1f} {4:.1f} L{5:.1f} {4:.1f} L{5:.1f} {6:.1f}", a.centre(), bottom, bottom + 11, gap, b.y - 9, b.centre(), b.y);
    }
    return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\"/>\n", path, crosses ? "#b00020" : "#8890a0");
  }

  static std::string line(double x1, double y1, double x2, double y2, bool crosses) {
    const double bend = std::min(18.0, (y2 - y1) / 2 + 4);
    return fmt::format("<path d=\"M{:.1f} {:.1f} C{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n", x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2,
                       crosses ? "#b00020" : "#9aa2b1", crosses ? "1.8" : "1.1");
  }

  std::string drawn(const Frame& f) const {
    std::string t = fmt::format("<g transform=\"translate({:.1f},{:.1f})\">\n<rect width=\"{:.1f}\" height=\"{:.1f}\" rx=\"6\" fill=\"#fbfbfc\" stroke=\"#c4c8d0\"/>\n", f.x, f.y, f.width, f.height);
    t += fmt::format("<text x=\"{:.1f}\" y=\"15\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>\n", f.width / 2, escaped_xml(title(*f.row)));
    std::string boxes;
    for (const auto& [g, corner] : f.at) {
      const ViewGroup& here = group(g);
      const auto [x, y] = corner;
      bool from_outside = false, crosses = false;
      for (int from : here.inputs) {
        const auto maker = f.at.find(from);
        const bool other = group(from).device != here.device;
        if (maker != f.at.end()) t += line(maker->second.first + kBoxWidth / 2, maker->second.second + kBoxHeight, x + kBoxWidth / 2, y, other);
        else from_outside = true, crosses |= other;
      }
      if (from_outside) t += line(f.width / 2, kTitle - 2, x + kBoxWidth / 2, y, crosses);
      boxes += box(here, x, y);
    }
    return t + boxes + "</g>\n";
  }

  std::string box(const ViewGroup& g, double x, double y) const {
    const double bar = longest_ > 0 ? g.total() / longest_ * (kBoxWidth - 8) : 0;
    std::string t = fmt::format("<g><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\" stroke=\"#556\" stroke-width=\"0.8\"/>\n",
                                escaped_xml(fmt::format("{}\n{}\non {}\n{}\nforward {}, backward {}, update {}; {:.3g} GFLOP; {} nodes", g.name, g.operators, device_text(plan_, g.device), g.reason,
                                                        seconds_text(g.seconds[0]), seconds_text(g.seconds[1]), seconds_text(g.seconds[2]), g.flops * 1e-9, g.nodes.size())),
                                x, y, kBoxWidth, kBoxHeight, device_colour(g.device));
    const std::string first = g.operators.substr(0, g.operators.find(','));
    t += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text><text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#333\" font-size=\"10\">{}</text><text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#333\" font-size=\"10\">{}</text>\n",
                     x + 4, y + 12, escaped_xml(shortened(g.label, 19)), x + 4, y + 24, escaped_xml(shortened(first, 13)), x + kBoxWidth - 4, y + 24, seconds_text(g.total()));
    return t + fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"3\" fill=\"#333a\"/></g>\n", x + 4, y + kBoxHeight - 5, bar);
  }

  const Plan& plan_;
  const PlanView view_;
  std::vector<Frame> frames_;
  double longest_ = 0, width_ = 0, height_ = 0;
};

}  // namespace

std::string graph_picture(const Plan& plan, const Graph& step) { return Drawing(plan, step).draw(); }

}  // namespace eng
