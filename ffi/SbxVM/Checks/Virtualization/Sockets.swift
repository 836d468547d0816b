import Foundation

public class VZSocketDeviceConfiguration: NSObject {}
public class VZSocketDevice: NSObject {}

public class VZVirtioSocketDeviceConfiguration: VZSocketDeviceConfiguration {
  public override init() { fatalError() }
}

public class VZVirtioSocketDevice: VZSocketDevice {
  public func setSocketListener(_ listener: VZVirtioSocketListener, forPort port: UInt32) { fatalError() }
  public func connect(
    toPort port: UInt32,
    completionHandler: @escaping @Sendable (Result<VZVirtioSocketConnection, any Error>) -> Void
  ) { fatalError() }
}

public class VZVirtioSocketConnection: NSObject {
  public var fileDescriptor: Int32 { fatalError() }
}

public protocol VZVirtioSocketListenerDelegate: AnyObject {
  func listener(
    _ listener: VZVirtioSocketListener, shouldAcceptNewConnection connection: VZVirtioSocketConnection,
    from socketDevice: VZVirtioSocketDevice
  ) -> Bool
}

public class VZVirtioSocketListener: NSObject {
  public override init() { fatalError() }
  public weak var delegate: (any VZVirtioSocketListenerDelegate)?
}
