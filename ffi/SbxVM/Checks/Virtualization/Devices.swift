import Foundation

public class VZStorageDeviceConfiguration: NSObject {}
public class VZStorageDeviceAttachment: NSObject {}
public class VZEntropyDeviceConfiguration: NSObject {}
public class VZMemoryBalloonDeviceConfiguration: NSObject {}
public class VZSerialPortConfiguration: NSObject {
  public var attachment: VZSerialPortAttachment?
}
public class VZSerialPortAttachment: NSObject {}
public class VZDirectorySharingDeviceConfiguration: NSObject {}
public class VZDirectoryShare {
  init(declared: Void) {}
}

public enum VZDiskImageCachingMode: Int, Sendable {
  case automatic, uncached, cached
}

public enum VZDiskImageSynchronizationMode: Int, Sendable {
  case full = 1
  case fsync, none
}

public class VZDiskImageStorageDeviceAttachment: VZStorageDeviceAttachment {
  public init(
    url: URL, readOnly: Bool, cachingMode: VZDiskImageCachingMode, synchronizationMode: VZDiskImageSynchronizationMode
  ) throws { fatalError() }
}

public class VZVirtioBlockDeviceConfiguration: VZStorageDeviceConfiguration {
  public init(attachment: VZStorageDeviceAttachment) { fatalError() }
}

public class VZVirtioEntropyDeviceConfiguration: VZEntropyDeviceConfiguration {
  public override init() { fatalError() }
}

public class VZVirtioTraditionalMemoryBalloonDeviceConfiguration: VZMemoryBalloonDeviceConfiguration {
  public override init() { fatalError() }
}

public class VZVirtioConsoleDeviceSerialPortConfiguration: VZSerialPortConfiguration {
  public override init() { fatalError() }
}

public class VZFileHandleSerialPortAttachment: VZSerialPortAttachment {
  public init(fileHandleForReading: FileHandle?, fileHandleForWriting: FileHandle?) { fatalError() }
}

public class VZSharedDirectory: NSObject {
  public init(url: URL, readOnly: Bool) { fatalError() }
}

public class VZSingleDirectoryShare: VZDirectoryShare {
  public init(directory: VZSharedDirectory) { fatalError() }
}

public class VZVirtioFileSystemDeviceConfiguration: VZDirectorySharingDeviceConfiguration {
  public init(tag: String) { fatalError() }
  public var share: VZDirectoryShare?
}

public class VZLinuxRosettaDirectoryShare: VZDirectoryShare {
  public enum Availability: Int, Sendable {
    case notSupported, notInstalled, installed
  }

  public class var availability: Availability { fatalError() }
  public init() throws { fatalError() }
}
