// By what launched_rank() knows which rank this process is.
#pragma once

namespace tiermap {

/// Of the environment, as who starts ranks sets them.
struct RankVariables {
  const char* rank;
  const char* ranks;
};

/// Null where nothing says that this process is a rank.
const RankVariables* set_rank_variables() noexcept;

}  // namespace tiermap
