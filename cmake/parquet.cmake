# Stores in Parquet files. The library itself needs nothing for them; what Arrow does is in a library of its own,
# libtiermap_parquet, which is built where Arrow's C++ library is: in the pyarrow wheel, with headers and all
# (scripts/setup_pyarrow.sh makes an environment with it). src/store/parquet/library.cpp loads it when the first parquet: URL is opened.
set(TIERMAP_PYARROW "" CACHE PATH "Folder of the pyarrow package whose Arrow libtiermap_parquet is built on")
# One version: Arrow's interface and the names of its libraries change with each.
set(arrow_version 2600)

function(tiermap_find_arrow)
  set(candidates ${TIERMAP_PYARROW})
  if(NOT candidates)
    file(GLOB candidates ${PROJECT_SOURCE_DIR}/build/pyarrow/lib/python3*/site-packages/pyarrow)
    if(TIERMAP_BUILD_PYTHON)
      # That of the interpreter which the wheel is built by, so that both are found side by side.
      find_package(Python 3.9 QUIET COMPONENTS Interpreter)
      execute_process(COMMAND ${Python_EXECUTABLE} -c "import os, pyarrow; print(os.path.dirname(pyarrow.__file__))"
        OUTPUT_VARIABLE candidates OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endif()
  foreach(folder ${candidates})
    if(EXISTS ${folder}/libparquet.so.${arrow_version} AND EXISTS ${folder}/include/parquet/file_reader.h)
      set(TIERMAP_ARROW_FOLDER ${folder} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(STATUS "No libtiermap_parquet: no pyarrow 26.0 in ${PROJECT_SOURCE_DIR}/build/pyarrow (scripts/setup_pyarrow.sh) or -DTIERMAP_PYARROW")
endfunction()
if(TIERMAP_PARQUET)
  tiermap_find_arrow()
endif()

# Of a library's sources, and of the library that is made of them.
function(tiermap_filter_parquet sources)
  list(FILTER ${sources} EXCLUDE REGEX "/src/parquet_codec/")
  if(NOT TIERMAP_PARQUET)
    list(FILTER ${sources} EXCLUDE REGEX "/src/store/parquet/")
  endif()
  set(${sources} ${${sources}} PARENT_SCOPE)
endfunction()
function(tiermap_use_parquet target)
  if(TIERMAP_PARQUET)
    target_compile_definitions(${target} PRIVATE TIERMAP_HAS_PARQUET TIERMAP_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  endif()
endfunction()
