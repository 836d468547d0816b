# One VM for each dispatch, which ends with its command. docs/guides/scale.md
#
#     nomad job run batch.nomad.hcl
#     nomad job dispatch -meta command='make test' sbx-run
job "sbx-run" {
  type = "batch"

  parameterized {
    meta_required = ["command"]
  }

  constraint {
    attribute = "${meta.sbx.kvm}"
    value     = "true"
  }

  group "run" {
    # A VM that failed is not run again: its command may have had effects.
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }

    task "sbx" {
      driver       = "docker"
      kill_timeout = "60s"

      config {
        image      = "registry.example.com/sbx:0.1.0"
        entrypoint = ["sbx", "run", "--cpus", "2", "--ram", "1G", "--timeout", "1500", "--"]
        command    = "sh"
        args       = ["-c", "${NOMAD_META_command}"]
        devices = [
          { host_path = "/dev/kvm", container_path = "/dev/kvm" },
        ]
        cap_drop = ["all"]
        cap_add  = ["chown", "dac_override", "fowner", "kill", "mknod", "setgid", "setpcap", "setuid", "sys_admin"]
      }

      env {
        SBX_HOME = "${NOMAD_ALLOC_DIR}/home"
      }

      # 1 GiB for the VM, and 1 GiB for sbx and QEMU.
      resources {
        cores  = 2
        memory = 2048
      }
    }
  }
}
