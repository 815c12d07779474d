output "vpc_id" {
  description = "Id of the VPC."
  value       = aws_vpc.main.id
}

output "private_subnets" {
  description = "Private subnets in the order of zones: id and availability zone."
  value       = [for subnet in aws_subnet.private : { id = subnet.id, zone = subnet.availability_zone }]

  # Hosts fetch Systems Manager's agent from S3 at their first boot, and once only.
  depends_on = [aws_route_table_association.private, aws_vpc_endpoint.s3]
}

output "public_subnets" {
  description = "The public subnet, or none: id and availability zone."
  value       = [for subnet in aws_subnet.public : { id = subnet.id, zone = subnet.availability_zone }]

  # An instance cannot have a public address before there is a way to the internet.
  depends_on = [aws_route.internet, aws_route_table_association.public]
}

output "domain" {
  description = "Private DNS domain of the hosts."
  value       = aws_route53_zone.private.name
}

output "dns_zone_id" {
  description = "Id of the Route 53 zone of that domain."
  value       = aws_route53_zone.private.zone_id
}

output "s3_prefix_list_id" {
  description = "Id of the list of S3's addresses in the region, for security group rules."
  value       = aws_vpc_endpoint.s3.prefix_list_id
}
