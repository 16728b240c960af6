#include "ingest/stream_report.hpp"

#include <fmt/format.h>

#include "tiermap/error.hpp"

namespace tiermap {

void require_made_from(const EdgeSource& source, const std::string& path, std::uint64_t vertices, std::uint64_t edges) {
  if (vertices != source.vertices() || edges != source.edges()) {
    throw OptionError(
        fmt::format("{} was made from {} edges between {} vertices, and this stream has {} between {}: "
                    "give the --scale, --edge-factor or --input that it was made with",
                    path, edges, vertices, source.edges(), source.vertices()));
  }
}

void describe_stream(const std::string& workload, const EdgeSource& source, const Measurement& measured,
                     Report& report) {
  report.workload = workload;
  report.operations = source.edges();
  const double rate = static_cast<double>(source.edges()) / measured.seconds;
  report.fields["vertices"] = source.vertices();
  report.fields["edges"] = source.edges();
  report.fields["edges_per_second"] = rate;
  report.remark = fmt::format("{} vertices, {} edges, {:.0f} edges a second", source.vertices(), source.edges(), rate);
}

}  // namespace tiermap
