# What every host is like: module instance is the only one with an aws_instance in it.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  site = {
    name        = "kairoscope"
    subnets     = [{ id = "subnet-1", zone = "eu-central-1a" }]
    domain      = "kairoscope.internal"
    dns_zone_id = "Z1"
    key_name    = "kairoscope"
  }
  image             = { id = "ami-00000000000000001", user = "admin", user_data = null }
  type              = { name = "m5.2xlarge", vcpus = 8 }
  security_group_id = "sg-1"
  profile           = "kairoscope-eu-central-1-kairosdb"
}

run "a_host" {
  command = plan

  module {
    source = "./modules/instance"
  }

  variables {
    name            = "kairosdb-2"
    role            = "kairosdb"
    zone_index      = 0
    data_volume_gib = 200
    protect         = false
  }

  assert {
    condition = (
      aws_instance.host.metadata_options[0].http_tokens == "required" &&
      aws_instance.host.metadata_options[0].http_endpoint == "enabled" &&
      aws_instance.host.metadata_options[0].http_put_response_hop_limit == 1
    )
    error_message = "Metadata must be had by IMDSv2 only, and not from a container on the host."
  }

  assert {
    condition = (
      aws_instance.host.root_block_device[0].encrypted && aws_instance.host.root_block_device[0].volume_type == "gp3" &&
      aws_instance.host.root_block_device[0].volume_size == 30 && aws_instance.host.ebs_optimized
    )
    error_message = "The root disk must be an encrypted gp3 volume."
  }

  assert {
    condition = (
      aws_ebs_volume.data[0].encrypted && aws_ebs_volume.data[0].type == "gp3" && aws_ebs_volume.data[0].size == 200 &&
      aws_ebs_volume.data[0].availability_zone == "eu-central-1a" && aws_volume_attachment.data[0].skip_destroy
    )
    error_message = "The data volume must be an encrypted gp3 volume of the size given, in the subnet's zone."
  }

  assert {
    condition = (
      aws_instance.host.subnet_id == "subnet-1" && aws_instance.host.vpc_security_group_ids == toset(["sg-1"]) &&
      aws_instance.host.key_name == "kairoscope" && aws_instance.host.iam_instance_profile == "kairoscope-eu-central-1-kairosdb"
    )
    error_message = "Subnet, security group, key and profile are those given."
  }

  assert {
    condition     = aws_instance.host.tags == tomap({ Name = "kairoscope-kairosdb-2", Role = "kairosdb" }) && aws_instance.host.volume_tags == tomap({ Project = "kairoscope", Name = "kairoscope-kairosdb-2", Role = "kairosdb" })
    error_message = "The host and its root disk bear the name and the role; the disk from its start, and so with what the provider gives to all else."
  }

  assert {
    condition     = aws_route53_record.host.name == "kairosdb-2.kairoscope.internal" && aws_route53_record.host.type == "A"
    error_message = "A name in the private zone."
  }

  assert {
    condition     = !aws_instance.host.disable_api_termination && !aws_instance.host.disable_api_stop && length(aws_instance.host.instance_market_options) == 0
    error_message = "Neither protected nor a spot instance unless asked for."
  }
}

run "a_protected_host" {
  command = plan

  module {
    source = "./modules/instance"
  }

  variables {
    name       = "kairosdb-2"
    role       = "kairosdb"
    zone_index = 0
    protect    = true
  }

  assert {
    condition     = aws_instance.host.disable_api_termination && !aws_instance.host.disable_api_stop && length(module.protection) == 1
    error_message = "It must not be ended; it may be stopped, as nothing is lost by that."
  }

  assert {
    condition     = length(aws_ebs_volume.data) == 0 && length(aws_volume_attachment.data) == 0
    error_message = "No data volume unless asked for."
  }
}

run "a_protected_host_with_local_disks" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    nodes       = 1
    local_disks = ["/dev/nvme0n1"]
    protect     = true
  }

  assert {
    condition     = aws_placement_group.storage[0].strategy == "cluster" && aws_placement_group.storage[0].name == "kairoscope-storage"
    error_message = "In one zone, storage is in a cluster placement group."
  }
}

run "may_not_be_stopped" {
  command = plan

  module {
    source = "./modules/instance"
  }

  variables {
    name        = "storage-1"
    role        = "storage"
    zone_index  = 0
    local_disks = ["/dev/nvme0n1"]
    protect     = true
  }

  assert {
    condition     = aws_instance.host.disable_api_termination && aws_instance.host.disable_api_stop
    error_message = "Local disks come back empty after a stop, so it must not be stopped either."
  }
}

run "no_placement_group_in_three_zones" {
  command = plan

  module {
    source = "./modules/storage"
  }

  variables {
    nodes       = 3
    local_disks = []
    protect     = false
    site = {
      name        = "kairoscope"
      subnets     = [{ id = "subnet-1", zone = "eu-central-1a" }, { id = "subnet-2", zone = "eu-central-1b" }, { id = "subnet-3", zone = "eu-central-1c" }]
      domain      = "kairoscope.internal"
      dns_zone_id = "Z1"
      key_name    = "kairoscope"
    }
  }

  assert {
    condition     = length(aws_placement_group.storage) == 0
    error_message = "A cluster placement group cannot span zones."
  }
}

run "a_spot_host" {
  command = plan

  module {
    source = "./modules/instance"
  }

  variables {
    name       = "loader-1"
    role       = "loader"
    zone_index = 0
    spot       = true
  }

  assert {
    condition = (
      aws_instance.host.instance_market_options[0].market_type == "spot" &&
      aws_instance.host.instance_market_options[0].spot_options[0].spot_instance_type == "one-time"
    )
    error_message = "A spot instance that is not started again by itself."
  }

  assert {
    condition     = length(module.protection) == 0
    error_message = "It holds nothing to protect."
  }
}

run "kairosdb_behind_a_load_balancer" {
  command = plan

  module {
    source = "./modules/kairosdb"
  }

  variables {
    nodes                           = 2
    queue_volume_gib                = 200
    secured                         = true
    vpc_id                          = "vpc-1"
    load_balancer_security_group_id = "sg-2"
    port                            = 8080
    protect                         = true
  }

  assert {
    condition = (
      aws_lb.rest.internal && aws_lb.rest.load_balancer_type == "network" && aws_lb.rest.security_groups == toset(["sg-2"]) &&
      aws_lb.rest.subnets == toset(["subnet-1"]) && aws_lb.rest.enable_deletion_protection
    )
    error_message = "An internal network load balancer in the private subnets, protected."
  }

  assert {
    condition = (
      aws_lb_target_group.rest.health_check[0].protocol == "HTTPS" && aws_lb_target_group.rest.health_check[0].matcher == "204" &&
      aws_lb_target_group.rest.health_check[0].path == "/api/v1/health/check" && aws_lb_target_group.rest.port == 8080 &&
      aws_lb_listener.rest.port == 8080 && aws_lb_listener.rest.protocol == "TCP"
    )
    error_message = "Port 8080, healthy if KairosDB's health check answers 204."
  }

  assert {
    condition     = keys(aws_lb_target_group_attachment.rest) == ["kairosdb-1", "kairosdb-2"]
    error_message = "Every KairosDB node is behind it."
  }

  assert {
    condition     = output.url == "https://kairosdb.kairoscope.internal:8080"
    error_message = "A name in the private zone."
  }
}
