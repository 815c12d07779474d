variable "name" {
  description = "Prefix of names."
  type        = string
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "cidr" {
  description = "IPv4 range of the network."
  type        = string
}

variable "zones" {
  description = "Availability zones, one private subnet each. Their names may not be known before the first apply, so zone_count says how many."
  type        = list(string)
}

variable "zone_count" {
  description = "Number of availability zones."
  type        = number
}

variable "nat" {
  description = "Whether hosts in private subnets reach the internet through a NAT gateway."
  type        = bool
}

variable "public" {
  description = "Whether there is a public subnet without NAT too, for a bastion host."
  type        = bool
}
