// Whether a search is right: its medians are those of the pixels that cfitsio itself reads from the files, and every
// known object is found, as bright as it is.
#pragma once

#include <string>
#include <vector>

#include "median/detection.hpp"
#include "median/image_directory.hpp"
#include "median/search_plan.hpp"
#include "median/sky.hpp"

namespace tiermap {

/// Computes these medians again. Empty if they are the same, else one line. Throws StoreError if a file cannot be read.
std::string find_wrong_median(const FitsDirectory& directory, const SearchPlan& plan, const Sky& sky,
                              const std::vector<VectorMedian>& medians);

/// Looks for the known objects among the detections. Empty if all are there, else one line.
std::string find_missing_object(const FitsDirectory& directory, const SearchPlan& plan, const Sky& sky,
                                const std::vector<Detection>& detections);

}  // namespace tiermap
