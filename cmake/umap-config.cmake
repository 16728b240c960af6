# find_package(umap): the same as find_package(UMAP).
include(${CMAKE_CURRENT_LIST_DIR}/UMAPConfig.cmake)
