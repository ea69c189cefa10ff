# onnx_proto: the messages of ONNX's official schema. It comes with the Python package onnx or with a system's onnx
# headers; CLPRIM_ONNX_PROTO names another one.
find_package(Protobuf REQUIRED)
set(CLPRIM_ONNX_PROTO "" CACHE FILEPATH "onnx.proto or onnx-ml.proto; found by itself when empty")
if(NOT CLPRIM_ONNX_PROTO)
    find_package(Python 3.10 QUIET COMPONENTS Interpreter)
    if(Python_Interpreter_FOUND)
        execute_process(COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0])"
            OUTPUT_VARIABLE ONNX_PACKAGE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    find_file(ONNX_PROTO_FILE NAMES onnx-ml.proto onnx.proto PATHS "${ONNX_PACKAGE}" NO_DEFAULT_PATH)
    find_file(ONNX_PROTO_FILE NAMES onnx/onnx-ml.proto onnx/onnx.proto PATHS /usr/include /usr/local/include)
    if(NOT ONNX_PROTO_FILE)
        message(FATAL_ERROR "onnx.proto was not found: install the Python package onnx or the system package libonnx-dev, "
                            "or set CLPRIM_ONNX_PROTO")
    endif()
else()
    set(ONNX_PROTO_FILE ${CLPRIM_ONNX_PROTO})
endif()
message(STATUS "ONNX schema ${ONNX_PROTO_FILE}")

# One name whatever the file was called.
set(ONNX_PROTO_DIR ${CMAKE_CURRENT_BINARY_DIR}/onnx_proto)
configure_file(${ONNX_PROTO_FILE} ${ONNX_PROTO_DIR}/onnx_proto.proto COPYONLY)
add_custom_command(
    OUTPUT ${ONNX_PROTO_DIR}/onnx_proto.pb.cc ${ONNX_PROTO_DIR}/onnx_proto.pb.h
    COMMAND protobuf::protoc --cpp_out=lite:${ONNX_PROTO_DIR} -I${ONNX_PROTO_DIR} onnx_proto.proto
    DEPENDS ${ONNX_PROTO_DIR}/onnx_proto.proto protobuf::protoc
    VERBATIM)
add_library(onnx_proto OBJECT ${ONNX_PROTO_DIR}/onnx_proto.pb.cc)
# The messages stay inside the library: a process may hold another copy of them.
set_target_properties(onnx_proto PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(onnx_proto SYSTEM PUBLIC ${ONNX_PROTO_DIR})
target_link_libraries(onnx_proto PUBLIC protobuf::libprotobuf-lite)
target_compile_options(onnx_proto PRIVATE -w)
# Schemas before ONNX 1.13 have no default attributes of functions.
file(STRINGS ${ONNX_PROTO_FILE} ONNX_FUNCTION_DEFAULTS REGEX "attribute_proto = 11")
if(ONNX_FUNCTION_DEFAULTS)
    target_compile_definitions(onnx_proto INTERFACE CLPRIM_ONNX_FUNCTION_DEFAULTS)
endif()
