// A thread of MindSpore waits for reports of the device, for a while at a time, over and over. In a dry run MindSpore's own answer to
// that wait comes at once, so that the thread spins and takes a whole core from the compiler. Loaded before MindSpore, this answers
// in its place, after a pause. The symbol is weak and exported in libmindspore_ascend_res_manager.so.

#include <chrono>
#include <thread>

namespace mindspore {
namespace device {
namespace ascend {

template <typename Status>
Status SimuFuncIaclrtProcessReport(int milliseconds);

template <>
int SimuFuncIaclrtProcessReport<int>(int) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return 0;
}

}  // namespace ascend
}  // namespace device
}  // namespace mindspore
