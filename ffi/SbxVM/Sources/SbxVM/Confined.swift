import Dispatch
import Foundation

// The two types whose thread safety the compiler takes on trust; everything else is checked.

/// An object that only its serial queue touches; it is made there as well.
final class Confined<Object>: @unchecked Sendable {
  private let queue: DispatchQueue
  private let make: @Sendable () -> Object
  private lazy var object = make()

  init(to queue: DispatchQueue, _ make: @escaping @Sendable () -> Object) {
    self.queue = queue
    self.make = make
  }

  func async(_ body: @escaping @Sendable (Object) -> Void) {
    queue.async { body(self.object) }
  }
}

/// A value behind a lock.
final class Locked<Value>: @unchecked Sendable {
  private let lock = NSLock()
  private var value: Value

  init(_ value: Value) {
    self.value = value
  }

  func with<Result>(_ body: (inout Value) -> Result) -> Result {
    lock.lock()
    defer { lock.unlock() }
    return body(&value)
  }
}
