import Foundation
import Virtualization

/// Takes the guest's connections to one port. The framework holds its delegate weakly: keep this object.
final class SocketListener: NSObject, VZVirtioSocketListenerDelegate {
  let listener = VZVirtioSocketListener()
  private let connected: (Int32) -> Void

  /// - Parameter connected: gets a descriptor, which it owns
  init(_ connected: @escaping (Int32) -> Void) {
    self.connected = connected
    super.init()
    listener.delegate = self
  }

  func listener(
    _ listener: VZVirtioSocketListener, shouldAcceptNewConnection connection: VZVirtioSocketConnection,
    from socketDevice: VZVirtioSocketDevice
  ) -> Bool {
    guard case .success(let descriptor) = connection.duplicate() else { return false }
    connected(descriptor)
    return true
  }
}

extension VZVirtioSocketConnection {
  /// A descriptor of the caller's. The framework closes its own when the connection object is gone.
  func duplicate() -> Result<Int32, Failure> {
    let descriptor = dup(fileDescriptor)
    guard descriptor >= 0 else { return .failure(Failure(.socket, "the connection was closed")) }
    return .success(descriptor)
  }
}
