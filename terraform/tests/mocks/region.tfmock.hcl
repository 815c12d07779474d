# A region of three zones in which all types are to be had, and nothing is deployed. What a test needs
# otherwise it overrides. Values that the provider checks the form of are given; the rest is made up.

mock_data "aws_availability_zones" {
  defaults = { names = ["eu-central-1c", "eu-central-1a", "eu-central-1b"] }
}

mock_data "aws_ec2_instance_type_offerings" {
  defaults = {
    instance_types = [
      "i3.8xlarge", "m5.2xlarge", "t3.large", "t3.micro",
      "t3.micro", "t3.large", "m5.2xlarge", "i3.8xlarge",
      "i3.8xlarge", "m5.2xlarge", "t3.large", "t3.micro",
    ]
    locations = [
      "eu-central-1c", "eu-central-1c", "eu-central-1c", "eu-central-1c",
      "eu-central-1a", "eu-central-1a", "eu-central-1a", "eu-central-1a",
      "eu-central-1b", "eu-central-1b", "eu-central-1b", "eu-central-1b",
    ]
  }
}

mock_data "aws_ec2_instance_types" {
  defaults = { instance_types = ["i3.8xlarge"] }
}

mock_data "aws_ec2_instance_type" {
  defaults = {
    default_vcpus                  = 8
    hypervisor                     = "nitro"
    ebs_nvme_support               = "required"
    instance_disks                 = []
    supported_architectures        = ["i386", "x86_64"]
    supported_placement_strategies = ["cluster", "partition", "spread"]
  }
}

mock_data "aws_ami_ids" {
  defaults = { ids = ["ami-00000000000000002", "ami-00000000000000001"] }
}

mock_resource "aws_vpc_endpoint" {
  defaults = { prefix_list_id = "pl-00000001" }
}

mock_resource "aws_s3_bucket" {
  defaults = { arn = "arn:aws:s3:::kairoscope-results-1" }
}

mock_resource "aws_lb" {
  defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/kairosdb/1" }
}

mock_resource "aws_lb_target_group" {
  defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/kairosdb/1" }
}

mock_resource "aws_ebs_volume" {
  defaults = { id = "vol-00000000000000001" }
}

mock_resource "aws_instance" {
  defaults = { id = "i-00000000000000001", private_ip = "10.42.0.4" }
}

mock_resource "aws_eip" {
  defaults = { public_ip = "198.51.100.1" }
}

mock_data "aws_default_tags" {
  defaults = { tags = { Project = "kairoscope" } }
}
