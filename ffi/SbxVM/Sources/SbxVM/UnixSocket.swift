import Foundation

/// Unix sockets by path. Descriptors are closed when another program is started.
enum UnixSocket {
  #if os(Linux)
    private static let stream = Int32(SOCK_STREAM.rawValue)
  #else
    private static let stream = SOCK_STREAM
  #endif

  static func connect(to path: String) throws(Failure) -> Int32 {
    try open(path, "connect") { Foundation.connect($0, $1, $2) }
  }

  static func listen(at path: String, backlog: Int32 = 128) throws(Failure) -> Int32 {
    let descriptor = try open(path, "listen") { Foundation.bind($0, $1, $2) }
    guard Foundation.listen(descriptor, backlog) == 0 else { throw failure("listen", path, descriptor) }
    return descriptor
  }

  /// The next connection, or nothing where none waits.
  static func accept(_ listener: Int32) -> Int32? {
    let descriptor = Foundation.accept(listener, nil, nil)
    guard descriptor >= 0 else { return nil }
    adopt(descriptor)
    return descriptor
  }

  /// Sends what fits; a peer that is gone raises no signal.
  static func send(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    #if os(Linux)
      Foundation.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    #else
      Foundation.write(descriptor, bytes.baseAddress, bytes.count)
    #endif
  }

  static func close(_ descriptor: Int32) {
    _ = Foundation.close(descriptor)
  }

  /// Settings of every descriptor that this library owns.
  static func adopt(_ descriptor: Int32) {
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    #if !os(Linux)
      _ = fcntl(descriptor, F_SETNOSIGPIPE, 1)
    #endif
  }

  static func makeNonBlocking(_ descriptor: Int32) {
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  }

  private static func open(
    _ path: String, _ action: String, _ call: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws(Failure) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    let room = MemoryLayout.size(ofValue: address.sun_path)
    guard bytes.count < room else {
      throw Failure(.socket, "\(action) \(path): the path is longer than \(room - 1) bytes")
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let descriptor = Foundation.socket(AF_UNIX, stream, 0)
    guard descriptor >= 0 else { throw failure("socket", path, descriptor) }
    adopt(descriptor)
    let code = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        call(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    guard code == 0 else { throw failure(action, path, descriptor) }
    return descriptor
  }

  private static func failure(_ action: String, _ path: String, _ descriptor: Int32) -> Failure {
    let reason = String(cString: strerror(errno))
    if descriptor >= 0 { close(descriptor) }
    return Failure(.socket, "\(action) \(path): \(reason)")
  }
}
