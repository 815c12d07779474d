variable "name" {
  description = "Prefix of names."
  type        = string
}

variable "ssh_public_key" {
  description = "Public key that may log in."
  type        = string
}

variable "bastion" {
  description = "The bastion host: its image, type (see module instance) and security group; null: none."
  type = object({
    image             = object({ id = string, user = string, user_data = string })
    type              = object({ name = string, vcpus = number })
    security_group_id = string
  })
}

variable "endpoints" {
  description = "Interface endpoints through which hosts without NAT reach Systems Manager: id of the security group; null: none."
  type        = object({ security_group_id = string })
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "vpc_id" {
  description = "Id of the VPC."
  type        = string
}

variable "public_subnets" {
  description = "The subnet of the bastion host, or none: id and availability zone."
  type        = list(object({ id = string, zone = string }))
}

variable "private_subnets" {
  description = "Subnets of the hosts: id and availability zone."
  type        = list(object({ id = string, zone = string }))
}

variable "domain" {
  description = "Private DNS domain of the hosts."
  type        = string
}

variable "dns_zone_id" {
  description = "Id of the Route 53 zone of that domain."
  type        = string
}
