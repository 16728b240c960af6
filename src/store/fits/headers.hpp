// The headers of a FITS file, before cfitsio sees them; of one that lies in a store, as a file for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "store/file_descriptor.hpp"
#include "store/file_transfer.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// A file without a name, in memory, with a copy of each header where it is in the store; what is between them, the
/// pixels, are holes. It ends with the last header. Each header is read from the store, and nothing else of it. Throws
/// StoreError: for what cannot be read or is no FITS file, and for headers that take more memory than they should.
FileDescriptor copy_fits_headers(std::shared_ptr<Store> store);

/// Throws StoreError for headers that cfitsio is not to be given, and for what cannot be read or is no FITS file.
void check_fits_headers(const DirectFile& file, std::uint64_t bytes, const std::string& path);

}  // namespace tiermap
