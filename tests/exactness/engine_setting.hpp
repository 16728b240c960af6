// The ways of serving faults that a test is run with, their names, and a cache that serves them so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tiermap/tiermap.hpp"

namespace tiermap {

struct EngineSetting {
  FaultMode mode;
  Placement placement;
};

/// All that has to make no difference. Automatic placement copies small pages and moves the others.
inline constexpr EngineSetting all_engine_settings[] = {
    {FaultMode::notify, Placement::move},       {FaultMode::notify, Placement::copy},
    {FaultMode::notify, Placement::automatic},  {FaultMode::self_serving, Placement::move},
    {FaultMode::self_serving, Placement::copy}, {FaultMode::self_serving, Placement::automatic}};

inline std::string placement_suffix(Placement placement) {
  return placement == Placement::move ? "_move" : placement == Placement::copy ? "_copy" : "_automatic";
}

inline std::string engine_name(const EngineSetting& engine) {
  if (engine.mode == FaultMode::kernel) {
    return "kernel";
  }
  return (engine.mode == FaultMode::notify ? "notify" : "self") + placement_suffix(engine.placement);
}

/// Options of a cache that serves faults so, and that other processes do not see.
inline CacheOptions cache_options(const EngineSetting& engine, std::uint64_t budget_bytes) {
  CacheOptions options;
  options.budget_bytes = budget_bytes;
  options.fault_mode = engine.mode;
  options.placement = engine.placement;
  options.publish_statistics = false;
  return options;
}

}  // namespace tiermap
