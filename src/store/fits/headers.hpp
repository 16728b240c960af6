// The headers of a FITS file that lies in a store, as a file for cfitsio.
#pragma once

#include "store/file_descriptor.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// A file without a name, in memory, with a copy of each header where it is in the store; what is between them, the
/// pixels, are holes. It ends with the last header. Each header is read from the store, and nothing else of it. Throws
/// StoreError: for what cannot be read or is no FITS file, and for headers that take more memory than they should.
FileDescriptor copy_fits_headers(std::shared_ptr<Store> store);

/// Throws StoreError unless a file of this name begins as FITS files do; `beginning` has fits_beginning_bytes, or all
/// of a shorter one.
inline constexpr std::size_t fits_beginning_bytes = 9;
void check_fits_beginning(std::string_view beginning, const std::string& name);

}  // namespace tiermap
