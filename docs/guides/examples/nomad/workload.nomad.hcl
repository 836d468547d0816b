# A VM for each allocation: its service, its session and its disk. docs/guides/fleet.md, "VMs on many hosts".
job "sbx-workload" {
  type = "service"

  # Fingerprinted by the node's configuration: client { meta { "sbx.kvm" = "true" } }.
  constraint {
    attribute = "${meta.sbx.kvm}"
    value     = "true"
  }

  group "workload" {
    count = 1

    # The client's host volume keeps the home of the VM between allocations.
    volume "home" {
      type            = "host"
      source          = "sbx-home"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    # A drain waits for this allocation before the next one starts.
    migrate {
      max_parallel     = 1
      health_check     = "task_states"
      min_healthy_time = "10s"
      healthy_deadline = "5m"
    }

    task "sbx" {
      driver = "docker"

      # Nomad has no preStop: the entry point writes the VM to disk on SIGTERM.
      kill_signal  = "SIGTERM"
      kill_timeout = "300s"

      config {
        image = "registry.example.com/sbx:0.1.0"

        devices = [
          { host_path = "/dev/kvm", container_path = "/dev/kvm" },
        ]
        cap_drop        = ["all"]
        cap_add         = ["chown", "dac_override", "fowner", "kill", "mknod", "setgid", "setpcap", "setuid", "sys_admin"]
        readonly_rootfs = true
        mount {
          type   = "tmpfs"
          target = "/tmp"
        }
      }

      env {
        SBX_HOME             = "/var/lib/sbx-home"
        SBX_WORKLOAD_PROFILE = "code"
      }

      volume_mount {
        volume      = "home"
        destination = "/var/lib/sbx-home"
      }

      # The profile's VM: 2 processors, 1 GiB; and 1 GiB for sbx, QEMU and the files that they hold.
      resources {
        cores  = 2
        memory = 2048
      }
    }
  }
}
