import Dispatch

/// The answer that a thread waits for; only the first one counts.
final class Reply<Value: Sendable>: Sendable {
  private let answer = Locked<Result<Value, Failure>?>(nil)
  private let semaphore = DispatchSemaphore(value: 0)

  func settle(_ result: Result<Value, Failure>) {
    let isFirst = answer.with { answer in
      guard answer == nil else { return false }
      answer = result
      return true
    }
    if isFirst { semaphore.signal() }
  }

  func wait() throws(Failure) -> Value {
    semaphore.wait()
    // Settled before the signal.
    return try answer.with { $0! }.get()
  }
}
