# What AWS says of types and zones: chosen from, kept, or refused with what to do.

mock_provider "aws" {
  source = "./tests/mocks"

  override_data {
    target = data.aws_ec2_instance_type.known["i3.8xlarge"]
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
  region         = "eu-central-1"
  zone_count     = 1
  zones          = []
  instance_types = { storage = "i3.8xlarge", kairosdb = "m5.2xlarge", loader = "m5.2xlarge", monitoring = "t3.large", bastion = "t3.micro" }
}

run "chooses_the_first_zones" {
  module {
    source = "./modules/shape"
  }

  assert {
    condition     = output.zones == tolist(["eu-central-1a"]) && output.types["storage"] == { name = "i3.8xlarge", vcpus = 32 }
    error_message = "The first zone in order, whatever the order of AWS's answer."
  }
}

run "stays_when_an_earlier_zone_would_do" {
  module {
    source = "./modules/shape"
  }

  override_data {
    target = data.aws_availability_zones.region
    values = { names = ["eu-central-10", "eu-central-1a"] }
  }

  override_data {
    target = data.aws_ec2_instance_type_offerings.zones
    values = {
      instance_types = ["i3.8xlarge", "m5.2xlarge", "t3.large", "t3.micro", "i3.8xlarge", "m5.2xlarge", "t3.large", "t3.micro"]
      locations      = ["eu-central-10", "eu-central-10", "eu-central-10", "eu-central-10", "eu-central-1a", "eu-central-1a", "eu-central-1a", "eu-central-1a"]
    }
  }

  assert {
    condition     = output.zones == tolist(["eu-central-1a"])
    error_message = "The zone chosen first must be kept."
  }
}

run "says_when_its_zone_will_not_do" {
  command = plan

  module {
    source = "./modules/shape"
  }

  override_data {
    target = data.aws_ec2_instance_type_offerings.zones
    values = {
      instance_types = ["i3.8xlarge", "m5.2xlarge", "t3.large", "t3.micro"]
      locations      = ["eu-central-1b", "eu-central-1b", "eu-central-1b", "eu-central-1b"]
    }
  }

  expect_failures = [terraform_data.zones]
}

run "spreads_over_the_zones_kept" {
  command = plan

  module {
    source = "./modules/shape"
  }

  variables {
    zone_count = 3
  }

  assert {
    condition     = output.zones == tolist(["eu-central-1a", "eu-central-1b", "eu-central-1c"])
    error_message = "The zone that there was, and two more."
  }
}

run "no_such_type" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  variables {
    instance_types = { storage = "i3.8xlarg", kairosdb = "m5.2xlarge", loader = "m5.2xlarge", monitoring = "t3.large" }
  }

  expect_failures = [terraform_data.zones]
}

run "no_such_zone" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  variables {
    zones = ["eu-central-1d"]
  }

  expect_failures = [terraform_data.zones]
}

run "a_zone_without_the_types" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  variables {
    zones = ["eu-central-1b"]
  }

  override_data {
    target = data.aws_ec2_instance_type_offerings.zones
    values = {
      instance_types = ["i3.8xlarge", "m5.2xlarge", "t3.large", "t3.micro", "t3.micro"]
      locations      = ["eu-central-1a", "eu-central-1a", "eu-central-1a", "eu-central-1a", "eu-central-1b"]
    }
  }

  expect_failures = [terraform_data.zones]
}

run "too_few_zones_with_all_types" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  variables {
    zone_count = 3
  }

  override_data {
    target = data.aws_ec2_instance_type_offerings.zones
    values = {
      instance_types = ["i3.8xlarge", "m5.2xlarge", "t3.large", "t3.micro", "t3.micro"]
      locations      = ["eu-central-1a", "eu-central-1a", "eu-central-1a", "eu-central-1a", "eu-central-1b"]
    }
  }

  expect_failures = [terraform_data.zones]
}

run "not_for_x86" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  override_data {
    target = data.aws_ec2_instance_type.known["m5.2xlarge"]
    values = { supported_architectures = ["arm64"], ebs_nvme_support = "required" }
  }

  expect_failures = [terraform_data.zones]
}

run "storage_without_local_nvme" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  override_data {
    target = data.aws_ec2_instance_types.local_nvme
    values = { instance_types = [] }
  }

  expect_failures = [terraform_data.zones]
}

run "storage_without_cluster_placement" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  override_data {
    target = data.aws_ec2_instance_type.known["i3.8xlarge"]
    values = { supported_architectures = ["x86_64"], supported_placement_strategies = ["spread"], instance_disks = [] }
  }

  expect_failures = [terraform_data.zones]
}

run "kairosdb_not_nitro" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  override_data {
    target = data.aws_ec2_instance_type.known["m5.2xlarge"]
    values = { supported_architectures = ["x86_64"], ebs_nvme_support = "unsupported" }
  }

  expect_failures = [terraform_data.zones]
}

run "local_disks_on_nitro" {
  command   = plan
  state_key = "new"

  module {
    source = "./modules/shape"
  }

  override_data {
    target = data.aws_ec2_instance_type.known["i3.8xlarge"]
    values = {
      default_vcpus                  = 16
      hypervisor                     = "nitro"
      instance_disks                 = [{ count = 2, size = 1875, type = "ssd" }]
      supported_architectures        = ["x86_64"]
      supported_placement_strategies = ["cluster"]
    }
  }

  assert {
    condition     = output.local_disks == ["/dev/nvme1n1", "/dev/nvme2n1"]
    error_message = "On Nitro the first NVMe device is the root disk."
  }
}
