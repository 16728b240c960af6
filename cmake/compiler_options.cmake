# Warnings and sanitizers, the same for every target of the project.
add_library(tiermap_compiler_options INTERFACE)
target_compile_options(tiermap_compiler_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wcast-align -Wformat=2 -Wimplicit-fallthrough)
if(TIERMAP_WARNINGS_AS_ERRORS)
  target_compile_options(tiermap_compiler_options INTERFACE -Werror)
endif()
if(TIERMAP_SANITIZERS)
  target_compile_options(tiermap_compiler_options INTERFACE -fsanitize=${TIERMAP_SANITIZERS} -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # As GCC says it; Clang does from 21 on.
    foreach(sanitizer address thread)
      if(TIERMAP_SANITIZERS MATCHES ${sanitizer})
        string(TOUPPER ${sanitizer} name)
        target_compile_options(tiermap_compiler_options INTERFACE -U__SANITIZE_${name}__ -D__SANITIZE_${name}__=1)
      endif()
    endforeach()
    # It looks at memory through a pipe, which some tests have no descriptor for.
    target_compile_options(tiermap_compiler_options INTERFACE -fno-sanitize=vptr)
  endif()
  # The tests' own code takes a fifth longer to compile with checks that are meant for the library.
  target_compile_options(tiermap_compiler_options INTERFACE
    $<$<BOOL:$<TARGET_PROPERTY:TIERMAP_IS_TEST>>:-fno-sanitize=undefined>)
  # What is loaded by the library is not linked to it, and cannot know the types of its objects.
  target_compile_options(tiermap_compiler_options INTERFACE
    $<$<BOOL:$<TARGET_PROPERTY:TIERMAP_IS_LOADED>>:-fno-sanitize=vptr>)
  target_link_options(tiermap_compiler_options INTERFACE -fsanitize=${TIERMAP_SANITIZERS})
endif()
if(TIERMAP_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TIERMAP_BUILD_FUZZERS needs Clang, not ${CMAKE_CXX_COMPILER_ID}: use the preset asan")
  endif()
endif()
