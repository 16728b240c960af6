# `cpack -G DEB` makes one package: programs, library, headers. `make package` calls it on the preset `package`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tiermap)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The Tiermap authors")
set(CPACK_PACKAGE_CONTACT "The Tiermap authors <tiermap@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION
  "Tiermap maps data larger than memory into a program's address space. It pages in user space (userfaultfd), keeps to an exact memory budget, and gives the program control of page size, eviction, read-ahead and write-back.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# The dependencies are read from the binaries.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Our own library, which the programs need, is in this same package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
include(CPack)
