// Words and colours that all forms of a plan share.
#pragma once

#include <string>

#include "graph/partition/plan.h"
#include "graph/partition/solve.h"  // bytes_text, seconds_text

namespace eng {

const char* name_of(Phase phase);            // "forward", "loss", "backward", "update"
std::string percent_text(double part);       // 0.123 -> "12.3 %"
std::string change_text(double part);        // 0.123 -> "+12.3 %"
std::string escaped_xml(const std::string& text);
// Part of a text that fits in `width` characters; what is cut off is shown by "..".
std::string shortened(const std::string& text, size_t width);
// A device of the plan's nodes, in all replicas: "cpu:0", or "cpu:0 | cpu:2" where two replicas have it in the same place,
// "cpu:0 | .. | cpu:6" where more have.
std::string device_text(const Plan& plan, int device);
// Fill colours, dark enough for a line and light enough for black text; they repeat after 8.
const char* device_colour(int device);
const char* phase_colour(Phase phase);
// "batch 64 on cpu:0, cpu:1: 2 replicas of 1 device, 1 shard each"
std::string arrangement_text(const Plan& plan);
// Words for how the predicted time lies to the measured one and to the bound.
std::string bound_text(const Plan& plan);

}  // namespace eng
