# Installs clprim's library into a fresh folder, then configures, builds and runs the program beside this file there.
set(work ${BUILD}/consumer)
file(REMOVE_RECURSE ${work})
function(step)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "failed: ${ARGN}")
    endif()
endfunction()
step(${CMAKE_COMMAND} --install ${BUILD} --component clprim --prefix ${work}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${work}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${work}/prefix
     -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_BUILD_TYPE=Release)
step(${CMAKE_COMMAND} --build ${work}/build)
step(${work}/build/consumer)
