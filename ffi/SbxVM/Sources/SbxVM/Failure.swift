/// The one error of this library, as it crosses the interface.
struct Failure: Error, Encodable, Equatable {
  enum Code: String, Encodable {
    /// the number names no machine: it was freed, or never given
    case handle = "handle.invalid"
    case spec = "spec.invalid"
    /// the machine is not in a state for this
    case state = "state.invalid"
    /// the host or the machine has no such ability
    case feature = "feature.missing"
    /// the machine ended before the call was done
    case ended = "machine.ended"
    /// the hypervisor refused
    case hypervisor = "hypervisor.failed"
    /// a saved machine is damaged, or does not fit
    case image = "image.invalid"
    case socket = "socket.failed"
  }

  let code: Code
  let message: String

  init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }
}
