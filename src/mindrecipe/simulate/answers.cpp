// The functions of CANN whose answers MindSpore's dry run looks at. All others answer 0 (see standin.py).
//
// Compile with the C++ ABI of the plugin (-D_GLIBCXX_USE_CXX11_ABI=0): names of functions that take a std::string depend on it.

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

extern "C" {

// The kind of the device decides which kernels MindSpore selects.
const char *aclrtGetSocName() {
  const char *name = std::getenv("MINDRECIPE_SIMULATED_SOC");
  return name != nullptr ? name : "Ascend910B1";
}

const char *aclGetRecentErrMsg() { return ""; }

int rtGetSocVersion(char *version, uint32_t size) {
  std::snprintf(version, size, "%s", aclrtGetSocName());
  return 0;
}

// Two of the bounds-checked functions of C11's annex K, which glibc does not have: at most `count` characters, at most `room` bytes.
int vsnprintf_s(char *to, size_t room, size_t count, const char *format, va_list values) {
  return std::vsnprintf(to, count < room ? count + 1 : room, format, values);
}

int snprintf_s(char *to, size_t room, size_t count, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const int written = vsnprintf_s(to, room, count, format, values);
  va_end(values);
  return written;
}
}

// MindSpore makes an operator of the graph engine to look its attributes up, and destroys it: it must be a whole object.
namespace ge {

class AscendString {
  std::shared_ptr<std::string> text_;
};

class Operator {
 public:
  Operator() = default;
  explicit Operator(const char *type);
  explicit Operator(const std::string &type);
  Operator(const char *name, const char *type);
  Operator(const AscendString &name, const AscendString &type);
  Operator(const std::string &name, const std::string &type);
  virtual ~Operator() = default;

 private:
  std::shared_ptr<void> implementation_;
};

Operator::Operator(const char *) {}
Operator::Operator(const std::string &) {}
Operator::Operator(const char *, const char *) {}
Operator::Operator(const AscendString &, const AscendString &) {}
Operator::Operator(const std::string &, const std::string &) {}

class OperatorFactory {
 public:
  static Operator CreateOperator(const char *name, const char *type);
  static Operator CreateOperator(const std::string &name, const std::string &type);
  static bool IsExistOp(const char *type);
  static bool IsExistOp(const std::string &type);
};

Operator OperatorFactory::CreateOperator(const char *, const char *) { return Operator(); }
Operator OperatorFactory::CreateOperator(const std::string &, const std::string &) { return Operator(); }
bool OperatorFactory::IsExistOp(const char *) { return true; }
bool OperatorFactory::IsExistOp(const std::string &) { return true; }

}  // namespace ge
