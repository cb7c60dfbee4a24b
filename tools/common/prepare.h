// What engine-train settles before its first step: the model with weights, head and frozen parts; the data sets; the loss and the form of
// the labels that belongs to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/data/pipeline.h"
#include "engine/plugin/device.h"
#include "engine/train/model_steps.h"
#include "tools/common/console.h"
#include "tools/common/data_source.h"
#include "tools/common/devices.h"
#include "tools/common/train_options.h"

namespace eng::tools {

struct Prepared {
  std::shared_ptr<Fleet> fleet;
  std::optional<Plan> device_plan;       // where the branches or the number of replicas were planned
  std::unique_ptr<ModelSteps> steps;
  Step plan;                             // of the batch size: parameters, loss form, label form
  std::vector<std::string> classes;      // class names; empty where the data have none
  Preprocessing preprocessing;
  bool pictures = false;
  ClassMode class_mode = ClassMode::kSparse;
  std::shared_ptr<Dataset> training, validation;  // validation may be null
  std::unique_ptr<DataPipeline> training_pipeline, validation_pipeline;
};

Result<std::unique_ptr<Prepared>> prepare_training(const TrainOptions& options, std::shared_ptr<Ranks> ranks, const Console& console, Progress& progress);

}  // namespace eng::tools
