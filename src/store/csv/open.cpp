#include "store/csv/open.hpp"

#include <cerrno>
#include <utility>

#include "store/csv/csv_store.hpp"
#include "store/nested_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

[[noreturn]] void refuse_option(const StoreUrl& url, const std::string& why) {
  throw StoreError(EINVAL, "store '" + url.text + "': " + why);
}

char parse_delimiter(const std::string& text, const StoreUrl& url) {
  constexpr std::pair<std::string_view, char> names[] = {{"", ','}, {"comma", ','}, {"tab", '\t'}, {"space", ' '}};
  for (const auto& [name, delimiter] : names) {
    if (text == name) {
      return delimiter;
    }
  }
  if (text.size() != 1 || std::string_view("\"\n\r").find(text[0]) != std::string_view::npos) {
    refuse_option(url,
                  "delimiter '" + in_one_line(text) + "' is not one character: choose for example %3B, %7C or tab");
  }
  return text[0];
}

CsvForm::Header parse_header(const std::string& text, const StoreUrl& url) {
  if (!text.empty() && text != "on" && text != "off") {
    refuse_option(url, "header '" + in_one_line(text) + "' is neither on nor off: choose one, or leave it out");
  }
  return text.empty() ? CsvForm::Header::found_out : text == "on" ? CsvForm::Header::there : CsvForm::Header::none;
}

const CsvNumber* parse_type(const std::string& text, const StoreUrl& url) {
  const CsvNumber* const number = find_csv_number(text.empty() ? "float64" : text);
  if (number == nullptr) {
    refuse_option(url, "type '" + in_one_line(text) + "' is unknown: choose among " + csv_number_names());
  }
  return number;
}

CsvForm parse_form(UrlOptions& options, const StoreUrl& url) {
  std::string columns = options.text("columns");
  if (columns.empty() && options.has("columns")) {
    refuse_option(url, "columns names none: name some, such as columns=x,y, or leave the option out for all");
  }
  return {std::move(columns), parse_type(options.text("type"), url), options.text("missing"),
          parse_delimiter(options.text("delimiter"), url), parse_header(options.text("header"), url)};
}

std::unique_ptr<Store> open_text(CsvText text, const CsvForm& form, const std::string& path, const StoreUrl& url,
                                 std::uint32_t max_reads) {
  CsvTable table(path, text, form);
  if (text.changed()) {
    throw StoreError(ESTALE, path + " was changed while it was read: open it once it is complete");
  }
  return std::make_unique<CsvStore>(std::move(text), std::move(table), url.text, max_reads);
}

/// csv:s3://bucket/table.csv
std::unique_ptr<Store> open_csv_in(const NestedUrl& nested, OpenMode mode) {
  UrlOptions options(nested.format);
  const CsvForm form = parse_form(options, nested.format);
  options.finish();
  const std::shared_ptr<Store> store = open_nested(nested, mode, "text files");
  return open_text(CsvText(store), form, store->name(), nested.format, store->max_reads_in_flight());
}

}  // namespace

std::unique_ptr<Store> open_csv(const StoreUrl& url, OpenMode mode, const NewStore&) {
  if (const auto nested = parse_nested_url(url, {"columns", "type", "missing", "delimiter", "header"}, false)) {
    return open_csv_in(*nested, mode);
  }
  UrlOptions options(url);
  const std::uint32_t max_reads = options.count("max_reads");
  const CsvForm form = parse_form(options, url);
  options.finish();
  const std::string path = percent_decode(local_path(url, "csv:///directory/file.csv"), url.text);
  if (mode != OpenMode::read_only) {
    throw StoreError(EROFS, "store '" + url.text +
                                "': text files are only read: open it read-only, or copy the numbers " +
                                "to a store that can be written");
  }
  return open_text(CsvText(open_file(path, false, false)), form, path, url, max_reads);  // Text lies anywhere.
}

}  // namespace tiermap
