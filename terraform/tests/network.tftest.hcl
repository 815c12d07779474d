# The network in each of its shapes, and the way in.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name       = "kairoscope"
  region     = "eu-central-1"
  cidr       = "10.42.0.0/16"
  zones      = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
  zone_count = 3
  nat        = true
  public     = true
}

run "three_zones_with_nat" {
  command = plan

  module {
    source = "./modules/network"
  }

  assert {
    condition = [for subnet in aws_subnet.private : "${subnet.cidr_block} ${subnet.availability_zone}"] == [
      "10.42.0.0/20 eu-central-1a", "10.42.16.0/20 eu-central-1b", "10.42.32.0/20 eu-central-1c"
    ]
    error_message = "A private subnet in each zone."
  }

  assert {
    condition     = aws_subnet.public[0].cidr_block == "10.42.240.0/20" && length(aws_nat_gateway.main) == 1 && length(aws_route.nat) == 1
    error_message = "One public subnet, and one NAT gateway in it."
  }

  assert {
    condition     = alltrue([for subnet in concat(aws_subnet.private, aws_subnet.public) : subnet.map_public_ip_on_launch != true])
    error_message = "No subnet may give out public addresses."
  }

  assert {
    condition     = aws_route53_zone.private.name == "kairoscope.internal" && length(aws_route53_zone.private.vpc) == 1
    error_message = "The DNS zone is private."
  }

  assert {
    condition     = aws_vpc_endpoint.s3.service_name == "com.amazonaws.eu-central-1.s3"
    error_message = "The way to the bucket."
  }
}

run "a_bastion_without_nat" {
  command = plan

  module {
    source = "./modules/network"
  }

  variables {
    nat = false
  }

  assert {
    condition     = length(aws_subnet.public) == 1 && length(aws_nat_gateway.main) == 0 && length(aws_route.nat) == 0 && length(aws_eip.nat) == 0
    error_message = "A public subnet for the bastion host, and no way out for the rest."
  }
}

run "no_way_in_or_out" {
  command = plan

  module {
    source = "./modules/network"
  }

  variables {
    nat    = false
    public = false
  }

  assert {
    condition     = length(aws_subnet.public) == 0 && length(aws_internet_gateway.main) == 0 && length(aws_route.internet) == 0 && length(output.public_subnets) == 0
    error_message = "Nothing public at all."
  }
}

run "by_ssh" {
  command = plan

  module {
    source = "./modules/access"
  }

  variables {
    ssh_public_key  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4k0yTzWsQp8Dq1m7hK0cXzvJb1t9n3eYw5u2r6o8Fq somebody\n"
    vpc_id          = "vpc-1"
    private_subnets = [{ id = "subnet-1", zone = "eu-central-1a" }]
    public_subnets  = [{ id = "subnet-9", zone = "eu-central-1a" }]
    domain          = "kairoscope.internal"
    dns_zone_id     = "Z1"
    endpoints       = null
    bastion = {
      image             = { id = "ami-00000000000000001", user = "admin", user_data = null }
      type              = { name = "t3.micro", vcpus = 2 }
      security_group_id = "sg-9"
    }
  }

  assert {
    condition     = length(module.bastion) == 1 && length(aws_eip.bastion) == 1 && length(aws_vpc_endpoint.ssm) == 0 && output.bastion_user == "admin"
    error_message = "A bastion host with an address of its own."
  }

  assert {
    condition     = aws_key_pair.admin.public_key == trimspace(var.ssh_public_key) && aws_key_pair.admin.key_name == "kairoscope"
    error_message = "The key given, under the deployment's name."
  }
}

run "by_ssm_without_nat" {
  command = plan

  module {
    source = "./modules/access"
  }

  variables {
    ssh_public_key  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4k0yTzWsQp8Dq1m7hK0cXzvJb1t9n3eYw5u2r6o8Fq somebody"
    vpc_id          = "vpc-1"
    private_subnets = [{ id = "subnet-1", zone = "eu-central-1a" }]
    public_subnets  = []
    domain          = "kairoscope.internal"
    dns_zone_id     = "Z1"
    bastion         = null
    endpoints       = { security_group_id = "sg-8" }
  }

  assert {
    condition     = length(module.bastion) == 0 && length(aws_eip.bastion) == 0 && output.bastion == null
    error_message = "There must be no bastion host."
  }

  assert {
    condition = [for endpoint in aws_vpc_endpoint.ssm : endpoint.service_name] == [
      "com.amazonaws.eu-central-1.ssm", "com.amazonaws.eu-central-1.ssmmessages"
    ]
    error_message = "The services that sessions need."
  }

  assert {
    condition     = alltrue([for endpoint in aws_vpc_endpoint.ssm : endpoint.private_dns_enabled && endpoint.vpc_endpoint_type == "Interface" && endpoint.security_group_ids == toset(["sg-8"])])
    error_message = "Found under their usual names, and closed by a group of their own."
  }
}
