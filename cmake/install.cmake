# What `cmake --install` puts where. Components: Development (library, headers, CMake and pkg-config files) and Programs.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tiermap)

# The programs: every executable of apps/ and tools/. Building the target `programs` builds them and nothing else.
set(tiermap_programs)
if(TIERMAP_BUILD_APPS)
  foreach(folder apps tools)
    get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "EXECUTABLE")
        list(APPEND tiermap_programs ${target})
      endif()
    endforeach()
  endforeach()
endif()
add_custom_target(programs DEPENDS tiermap ${tiermap_programs})
set(tiermap_benchmarks)
if(TIERMAP_BUILD_BENCH)
  get_property(tiermap_benchmarks DIRECTORY ${PROJECT_SOURCE_DIR}/bench PROPERTY BUILDSYSTEM_TARGETS)
  if(TIERMAP_BUILD_APPS)
    # Plain MPI programs are there to be compared with, and are not installed.
    get_property(compared DIRECTORY ${PROJECT_SOURCE_DIR}/apps/mpi PROPERTY BUILDSYSTEM_TARGETS)
    list(APPEND tiermap_benchmarks ${compared})
  endif()
endif()
add_custom_target(benchmarks DEPENDS ${tiermap_benchmarks})

install(TARGETS tiermap EXPORT tiermap-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
install(DIRECTORY include/tiermap DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT Development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES ${PROJECT_BINARY_DIR}/include/tiermap/version.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tiermap
  COMPONENT Development)
install(EXPORT tiermap-targets NAMESPACE tiermap:: DESTINATION ${package_folder} COMPONENT Development)

# A program finds the library beside itself, wherever the prefix is.
if(tiermap_programs)
  if(BUILD_SHARED_LIBS)
    file(RELATIVE_PATH library_from_program ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(${tiermap_programs} PROPERTIES INSTALL_RPATH "$ORIGIN/${library_from_program}")
  endif()
  install(TARGETS ${tiermap_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT Programs)
endif()

foreach(name LICENSE README.md CHANGELOG.md CONTRIBUTING.md)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${name})
    install(FILES ${name} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT Programs)
  endif()
endforeach()
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT Programs)

# A program that links the static library has to link what the library uses; one that links the shared one need not.
get_target_property(library_type tiermap TYPE)
if(library_type STREQUAL "STATIC_LIBRARY")
  set(TIERMAP_IS_STATIC ON)
  set(TIERMAP_PC_REQUIRES "liburing libxxhash yaml-cpp")
  set(TIERMAP_PC_LIBS "-ltiermap -lstdc++ -pthread")
else()
  set(TIERMAP_IS_STATIC OFF)
  set(TIERMAP_PC_REQUIRES "")
  set(TIERMAP_PC_LIBS "-ltiermap")
endif()
configure_package_config_file(cmake/tiermap-config.cmake.in ${PROJECT_BINARY_DIR}/tiermap-config.cmake
  INSTALL_DESTINATION ${package_folder})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tiermap-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tiermap-config.cmake ${PROJECT_BINARY_DIR}/tiermap-config-version.cmake
  DESTINATION ${package_folder} COMPONENT Development)

# libumap and find_package(UMAP), for programs written for LLNL/umap; the version is that of the interface it stands for.
set(umap_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/UMAP)
if(BUILD_SHARED_LIBS)
  # Beside the library it is made on, wherever the prefix is.
  set_target_properties(umap PROPERTIES INSTALL_RPATH "$ORIGIN")
  # Programs that name libumap.a are linked to the shared library.
  install(FILES cmake/libumap.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
endif()
install(TARGETS umap EXPORT UMAP-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
install(DIRECTORY include/umap DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT Development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT UMAP-targets NAMESPACE UMAP:: DESTINATION ${umap_package_folder} COMPONENT Development)
configure_package_config_file(cmake/UMAPConfig.cmake.in ${PROJECT_BINARY_DIR}/UMAPConfig.cmake
  INSTALL_DESTINATION ${umap_package_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/UMAPConfigVersion.cmake VERSION 2.1.0 COMPATIBILITY SameMajorVersion)
# CMake looks for umap-config.cmake where a project asks for umap in small letters.
install(FILES ${PROJECT_BINARY_DIR}/UMAPConfig.cmake ${PROJECT_BINARY_DIR}/UMAPConfigVersion.cmake
  DESTINATION ${umap_package_folder} COMPONENT Development)
install(FILES ${PROJECT_BINARY_DIR}/UMAPConfigVersion.cmake DESTINATION ${umap_package_folder}
  RENAME umap-config-version.cmake COMPONENT Development)
install(FILES cmake/umap-config.cmake DESTINATION ${umap_package_folder} COMPONENT Development)

# The prefix is worked out from where the .pc file lies, so that `cmake --install --prefix` can still choose it.
file(RELATIVE_PATH TIERMAP_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" TIERMAP_PC_PREFIX "${TIERMAP_PC_PREFIX}")
configure_file(cmake/tiermap.pc.in ${PROJECT_BINARY_DIR}/tiermap.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tiermap.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT Development)
