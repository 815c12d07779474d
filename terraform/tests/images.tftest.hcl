# Images by owner and name, and what hosts are told at their first boot.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  region         = "eu-central-1"
  scylla_version = "2026.1.1"
  debian_version = "12"
  ssm_agent      = false
  ids            = { scylla = null, debian = null }
}

run "newest_of_the_version" {
  command = plan

  module {
    source = "./modules/images"
  }

  assert {
    condition     = output.scylla.id == "ami-00000000000000002" && output.debian.id == "ami-00000000000000002"
    error_message = "The newest image, which AWS's answer has first."
  }

  assert {
    condition     = data.aws_ami_ids.scylla.owners == tolist(["797456418907"]) && data.aws_ami_ids.debian.owners == tolist(["136693071363"])
    error_message = "ScyllaDB's and Debian's own images."
  }

  assert {
    condition = one([for filter in data.aws_ami_ids.scylla.filter : filter.values if filter.name == "name"]) == toset([
      "ScyllaDB 2026.1.1", "ScyllaDB 2026.1.1 *", "ScyllaDB 2026.1.1-*"
    ])
    error_message = "2026.1.11 must not be found for 2026.1.1."
  }

  assert {
    condition     = output.scylla.user_data == "{\"start_scylla_on_first_boot\":false}" && output.debian.user_data == null
    error_message = "First-boot data says only not to start the server."
  }

  assert {
    condition = (
      startswith(output.bastion.user_data, "#cloud-config\n") &&
      startswith(yamldecode(output.bastion.user_data).write_files[0].content, "MaxStartups 64:30:128\n")
    )
    error_message = "The bastion's sshd takes more than 10 logins at once."
  }
}

run "pinned" {
  command = plan

  module {
    source = "./modules/images"
  }

  variables {
    ids = { scylla = "ami-0123456789abcdef0", debian = null }
  }

  assert {
    condition     = output.scylla.id == "ami-0123456789abcdef0" && output.debian.id == "ami-00000000000000002"
    error_message = "An image that is named by its id is taken, whatever is newer."
  }
}

run "with_the_agent" {
  command = plan

  module {
    source = "./modules/images"
  }

  variables {
    ssm_agent = true
  }

  assert {
    condition     = startswith(output.debian.user_data, "#cloud-config\n") && yamldecode(output.debian.user_data).runcmd[1] == ["systemctl", "unmask", "amazon-ssm-agent"]
    error_message = "cloud-init must be able to read it."
  }

  assert {
    condition = (
      length(regexall("(?m)^--part$", output.scylla.user_data)) == 2 && endswith(output.scylla.user_data, "\n--part--\n") &&
      strcontains(output.scylla.user_data, "\nContent-Type: x-scylla/json\n\n{\"start_scylla_on_first_boot\":false}\n") &&
      strcontains(output.scylla.user_data, "\nContent-Type: text/cloud-config\n\n${output.debian.user_data}")
    )
    error_message = "Both parts, of which ScyllaDB's setup reads one and cloud-init the other."
  }
}

run "no_image_of_scylladb" {
  command = plan

  module {
    source = "./modules/images"
  }

  override_data {
    target = data.aws_ami_ids.scylla
    values = { ids = [] }
  }

  expect_failures = [data.aws_ami_ids.scylla]
}

run "no_image_of_debian" {
  command = plan

  module {
    source = "./modules/images"
  }

  override_data {
    target = data.aws_ami_ids.debian
    values = { ids = [] }
  }

  expect_failures = [data.aws_ami_ids.debian]
}
