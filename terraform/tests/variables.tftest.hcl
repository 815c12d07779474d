# Bad input: each variable's checks, one after another, each by a value that only that check refuses. A run
# has one bad value of each of several variables; it passes if each of these is refused and nothing else.
# A check that reads another variable is not made if that one was refused, so they are in different runs.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  experiment               = "cluster-180k"
  storage_nodes            = 3
  replication_factor       = 3
  storage_zones            = 1
  storage_instance_type    = "i3.8xlarge"
  scylla_version           = "2026.1.11"
  kairosdb_nodes           = 1
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

run "not_of_the_form" {
  command = plan

  variables {
    experiment         = "Cluster_180k"
    replication_factor = 1.5
    storage_zones      = 2
    scylla_version     = "2026.1"
    kairosdb_nodes     = 0
    queue_volume_gib   = 5
    loader_hosts       = 0
    region             = "eu-central-1a"
    name               = "Kairoscope"
    owner              = " "
    expires            = "31.12.2026"
    access             = "vpn"
    vpc_cidr           = "10.42.0.0"
    ssh_public_key     = "~/.ssh/id_ed25519.pub"
    debian_version     = "11"
    results_days       = 0
  }

  expect_failures = [
    var.experiment, var.replication_factor, var.storage_zones, var.scylla_version, var.kairosdb_nodes,
    var.queue_volume_gib, var.loader_hosts, var.region, var.name, var.owner, var.expires, var.access,
    var.vpc_cidr, var.ssh_public_key, var.debian_version, var.results_days,
  ]
}

run "not_of_the_form_otherwise" {
  command = plan

  variables {
    replication_factor = 0
    kairosdb_nodes     = 1.5
    queue_volume_gib   = 16385
    loader_hosts       = 1.5
    scylla_version     = "latest"
    name               = "internal-tests"
    owner              = "somebody <somebody@example.org>"
    expires            = "2026-02-31"
    ssh_public_key     = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBA== somebody"
    results_days       = 90.5
  }

  expect_failures = [
    var.replication_factor, var.kairosdb_nodes, var.queue_volume_gib, var.loader_hosts, var.scylla_version, var.name, var.owner, var.expires, var.ssh_public_key, var.results_days,
  ]
}

run "no_storage" {
  command = plan

  variables {
    storage_nodes  = 0
    experiment     = "-cluster"
    name           = "kairoscope-for-everybody" # 24 characters
    results_days   = 3651
    ssh_public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4k0yTz" # cut
    vpc_cidr       = "10.42.0.1/16"                                 # not the first address
  }

  expect_failures = [var.storage_nodes, var.experiment, var.name, var.results_days, var.ssh_public_key, var.vpc_cidr]
}

run "more_copies_than_nodes" {
  command = plan

  variables {
    replication_factor = 4
    zones              = ["eu-central-1a", "eu-central-1b"] # two, where storage_zones says one
    vpc_cidr           = "10.0.0.0/8"                       # larger than AWS has
  }

  expect_failures = [var.replication_factor, var.zones, var.vpc_cidr]
}

run "more_zones_than_nodes" {
  command = plan

  variables {
    storage_nodes      = 2
    replication_factor = 2
    storage_zones      = 3
    vpc_cidr           = "10.42.0.0/24" # too small
  }

  expect_failures = [var.storage_zones, var.vpc_cidr]
}

run "a_private_key" {
  command = plan

  variables {
    storage_nodes  = 2.5
    ssh_public_key = "-----BEGIN OPENSSH ${upper("private key")}-----\nb3BlbnNz\n"
    vpc_cidr       = "198.51.0.0/16" # somebody's on the internet
  }

  expect_failures = [var.storage_nodes, var.ssh_public_key, var.vpc_cidr]
}

run "nobody_may_log_in" {
  command = plan

  variables {
    admin_cidrs = []

    storage_zones = 3
    zones         = ["eu-central-1a", "eu-central-1b", "eu-central-1a"] # two, one of them twice
  }

  expect_failures = [var.admin_cidrs, var.zones]
}

run "an_address_without_bits" {
  command = plan

  variables {
    admin_cidrs = ["203.0.113.7/32", "198.51.100.4"]
  }

  expect_failures = [var.admin_cidrs]
}

run "an_ipv6_range" {
  command = plan

  variables {
    admin_cidrs = ["2001:db8::/32"]
  }

  expect_failures = [var.admin_cidrs]
}

run "an_address_that_is_not_the_first" {
  command = plan

  variables {
    admin_cidrs = ["203.0.113.7/24"]
  }

  expect_failures = [var.admin_cidrs]
}

run "open_to_the_world_by_one_word" {
  command = plan

  variables {
    admin_cidrs = ["0.0.0.0/0"]
  }

  expect_failures = [var.admin_cidrs]
}

run "open_to_the_world_in_halves" {
  command = plan

  variables {
    admin_cidrs = ["0.0.0.0/1", "128.0.0.0/1"]
  }

  expect_failures = [var.admin_cidrs]
}

run "the_network_within_where_one_comes_from" {
  command = plan

  variables {
    admin_cidrs = ["10.0.0.0/8"]
  }

  expect_failures = [var.admin_cidrs]
}

run "where_one_comes_from_within_the_network" {
  command = plan

  variables {
    admin_cidrs       = ["203.0.113.7/32", "10.42.255.0/24"]
    open_to_the_world = true # does not make it better
  }

  expect_failures = [var.admin_cidrs]
}

run "neighbours_do_not_overlap" {
  command = plan

  variables {
    admin_cidrs = ["10.43.0.0/16", "10.41.255.255/32"]
    vpc_cidr    = "10.42.0.0/20"
  }
}

run "an_expired_deployment" {
  command = plan

  variables {
    expires = "2020-01-31"
  }

  # A warning: to destroy it must not need another date.
  expect_failures = [check.expires]
}

run "a_boundary_that_is_no_policy" {
  command = plan

  variables {
    permissions_boundary = "kairoscope-hosts"
  }

  expect_failures = [var.permissions_boundary]
}
