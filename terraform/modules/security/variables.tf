variable "name" {
  description = "Prefix of names."
  type        = string
}

variable "vpc_id" {
  description = "Id of the VPC."
  type        = string
}

variable "vpc_cidr" {
  description = "IPv4 range of the VPC."
  type        = string
}

variable "ports" {
  description = "TCP port of each service, by its name in the root module's table."
  type        = map(number)
}

variable "bastion" {
  description = "Whether there is a bastion host."
  type        = bool
}

variable "admin_cidrs" {
  description = "IPv4 ranges from where SSH to the bastion host is allowed."
  type        = list(string)
}

variable "nat" {
  description = "Whether hosts may reach the internet."
  type        = bool
}

variable "endpoints" {
  description = "Whether there are interface endpoints of AWS services in the network."
  type        = bool
}

variable "s3_prefix_list_id" {
  description = "Id of the list of S3's addresses in the region."
  type        = string
}
