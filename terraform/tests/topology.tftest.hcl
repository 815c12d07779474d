# What comes out of the root module for each shape. Addresses and ids are made up; the zones, names, types
# and counts are not.

mock_provider "aws" {
  source = "./tests/mocks"

  override_data {
    target = module.shape.data.aws_ec2_instance_type.known["i3.8xlarge"]
    values = {
      default_vcpus                  = 32
      hypervisor                     = "xen"
      ebs_nvme_support               = "supported"
      instance_disks                 = [{ count = 4, size = 1900, type = "ssd" }]
      supported_architectures        = ["x86_64"]
      supported_placement_strategies = ["cluster", "partition", "spread"]
    }
  }
}

variables {
  experiment               = "cluster-180k"
  storage_nodes            = 3
  replication_factor       = 3
  storage_zones            = 1
  storage_instance_type    = "i3.8xlarge"
  scylla_version           = "2026.1.11"
  kairosdb_nodes           = 3
  kairosdb_instance_type   = "m5.2xlarge"
  queue_volume_gib         = 200
  secured                  = true
  loader_hosts             = 1
  loader_instance_type     = "m5.2xlarge"
  loader_spot              = false
  monitoring_instance_type = "t3.large"

  region         = "eu-central-1"
  owner          = "somebody@example.org"
  expires        = "2999-12-31"
  admin_cidrs    = ["203.0.113.7/32"]
  ssh_public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4k0yTzWsQp8Dq1m7hK0cXzvJb1t9n3eYw5u2r6o8Fq somebody"
}

run "published" {
  assert {
    condition = keys(output.hosts) == [
      "kairosdb-1", "kairosdb-2", "kairosdb-3", "loader-1", "monitoring-1", "storage-1", "storage-2", "storage-3",
    ]
    error_message = "Hosts: ${join(", ", keys(output.hosts))}."
  }

  assert {
    condition = { for host in output.hosts : host.group => "${host.instance_type} ${host.vcpus} ${host.ssh_user}"... } == {
      storage    = ["i3.8xlarge 32 scyllaadm", "i3.8xlarge 32 scyllaadm", "i3.8xlarge 32 scyllaadm"]
      kairosdb   = ["m5.2xlarge 8 admin", "m5.2xlarge 8 admin", "m5.2xlarge 8 admin"]
      loader     = ["m5.2xlarge 8 admin"]
      monitoring = ["t3.large 8 admin"]
    }
    error_message = "Groups, types, vCPUs or users are others."
  }

  assert {
    condition     = alltrue([for host in output.hosts : host.zone == "eu-central-1a" && host.rack == "rack1"])
    error_message = "One zone, the first of those that offer all types, and one rack."
  }

  assert {
    condition     = output.hosts["storage-2"].data_devices == ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1"]
    error_message = "The four local disks of an i3.8xlarge, which runs on Xen."
  }

  assert {
    condition     = output.hosts["kairosdb-1"].data_devices == ["/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol00000000000000001"]
    error_message = "The queue's volume, by its id."
  }

  assert {
    condition     = output.hosts["loader-1"].data_devices == []
    error_message = "Loader hosts have no data device."
  }

  assert {
    condition     = output.hosts["storage-3"].dns == "storage-3.kairoscope.internal" && output.kairosdb_url == "https://kairosdb.kairoscope.internal:8080"
    error_message = "Names in the private zone."
  }

  assert {
    condition     = output.bastion == "198.51.100.1" && output.bastion_user == "admin" && output.access == "ssh"
    error_message = "A bastion host with an address of its own."
  }

  assert {
    condition = output.ports == {
      cql           = 9042, cql_tls = 9142, cql_shard_aware = 19042, cql_shard_aware_tls = 19142
      storage       = 7000, storage_tls = 7001, storage_metrics = 9180, scylla_api = 10000
      node_exporter = 9100, loader_metrics = 9105, kairosdb_http = 8080, kairosdb_telnet = 4242
    }
    error_message = "Ports are others."
  }

  assert {
    condition     = output.region == "eu-central-1" && output.name == "kairoscope" && output.protect == false && output.results_bucket != ""
    error_message = "Region, name, protection or bucket."
  }
}

run "named_zone" {
  command   = plan
  state_key = "named_zone"

  variables {
    zones = ["eu-central-1b"]
  }

  assert {
    condition     = alltrue([for host in output.hosts : host.zone == "eu-central-1b"])
    error_message = "The zone that is named."
  }
}

run "three_zones" {
  command   = plan
  state_key = "three_zones"

  variables {
    zones          = ["eu-central-1a", "eu-central-1b", "eu-central-1c"] # what is chosen is known after an apply only
    storage_zones  = 3
    storage_nodes  = 4
    kairosdb_nodes = 2
  }

  assert {
    condition = { for name, host in output.hosts : name => "${host.zone} ${host.rack}" } == {
      storage-1    = "eu-central-1a rack1"
      storage-2    = "eu-central-1b rack2"
      storage-3    = "eu-central-1c rack3"
      storage-4    = "eu-central-1a rack1"
      kairosdb-1   = "eu-central-1a rack1"
      kairosdb-2   = "eu-central-1b rack2"
      loader-1     = "eu-central-1a rack1"
      monitoring-1 = "eu-central-1a rack1"
    }
    error_message = "Nodes are dealt over the zones in turn, a rack in each."
  }
}

run "ssm_without_nat" {
  command   = plan
  state_key = "ssm_without_nat"

  variables {
    access      = "ssm"
    admin_cidrs = []
    nat         = false
  }

  assert {
    condition     = output.bastion == null && output.bastion_user == null && output.access == "ssm"
    error_message = "There must be no bastion host."
  }
}

run "name_and_protection" {
  command   = plan # what is protected could not be torn down
  state_key = "name_and_protection"

  variables {
    name    = "fleet-2"
    protect = true
  }

  assert {
    condition     = output.hosts["loader-1"].dns == "loader-1.fleet-2.internal" && output.name == "fleet-2" && output.protect
    error_message = "Names begin with the name given, and the protection is told."
  }
}

run "open_to_the_world_by_two_words" {
  command   = plan
  state_key = "world"

  variables {
    admin_cidrs       = ["0.0.0.0/0"]
    open_to_the_world = true
  }
}

run "an_rsa_key_and_a_release_candidate" {
  command   = plan
  state_key = "rsa"

  variables {
    ssh_public_key = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ${join("", [for i in range(32) : "Ab1+/x9Z"])}AbC12== somebody else\n"
    scylla_version = "2026.2.0-rc1"
  }
}
